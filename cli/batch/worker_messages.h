// The messages about a case between a batch and its workers. Must not know how either works.
#pragma once

#include <optional>
#include <string>

#include "cli/batch/batch_case.h"
#include "cli/batch/channel.h"

namespace convgrad::cli {

// The first text of each message of a worker.
inline constexpr const char* kEnterWord = "enter";  // asks for its turn to compute; kGoWord answers
inline constexpr const char* kLeaveWord = "leave";  // gives it back
inline constexpr const char* kEndWord = "end";      // the case's
inline constexpr const char* kGoWord = "go";

// Each Read...() gives none for a message that its Write...() does not write: a worker whose memory
// was overwritten may send anything.
Message WriteJob(const CaseJob& job);
std::optional<CaseJob> ReadJob(const Message& message);

Message WriteEnding(const CaseEnding& ending);
std::optional<CaseEnding> ReadEnding(const Message& message);

// A case that has been planned and wants to compute.
struct TurnRequest {
  bool alone = false;
  std::string entry;  // of the report, as far as it is known
};

Message WriteTurnRequest(const TurnRequest& request);
std::optional<TurnRequest> ReadTurnRequest(const Message& message);

}  // namespace convgrad::cli
