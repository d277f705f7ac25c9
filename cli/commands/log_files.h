// Logs of other programs, as the commands `import` and `replay` read them.
#pragma once

#include <span>
#include <string>

#include "cli/dialects/import.h"
#include "cli/session/session.h"

namespace convgrad::cli {

// A dialect that can be read. Throws usage errors.
const Dialect& FindReadDialect(const std::string& name);

// Reads the whole file. With --verbose, each refusal is told at once. Throws I/O errors.
LogImport ReadLog(const Session& session, const std::string& path,
                  std::span<const Dialect* const> dialects);

// Prints what was taken, refused and left out, where it is seen even with --quiet if something is
// refused.
void ShowLog(Session& session, const LogImport& log);

// Throws kNothingRan "import/no-cases".
void CheckHasCases(const LogImport& log, const std::string& path);

}  // namespace convgrad::cli
