// The command `plan` on a manifest.
#pragma once

#include "cli/session/session.h"

namespace convgrad::cli {

inline constexpr const char* kManifestEndings[] = {".json", ".jsonl", ".ndjson"};

// By the ending of its name.
bool NamesManifestFile(const std::string& path);

// True if the operand of `plan` is a manifest, not an operation.
bool NamesManifest(const Arguments& arguments);

ExitCode PlanShards(Session& session);

}  // namespace convgrad::cli
