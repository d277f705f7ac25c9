#include "cli/batch/worker_messages.h"

#include <string>

namespace convgrad::cli {
namespace {

constexpr size_t kJobHead = 4;    // texts before the flags
constexpr size_t kFlagTexts = 3;  // of each flag

std::string Text(int64_t number) {
  return std::to_string(number);
}

// Texts that this program wrote itself.
int64_t Number(const std::string& text) {
  return std::stoll(text);
}

}  // namespace

// Places in the manifest stay behind: whatever names them was found before a case runs.
Message WriteJob(const CaseJob& job) {
  Message message = {Text(job.index), job.identity, Text(static_cast<int64_t>(job.request.command)),
                     job.request.op};
  for (const FlagValues::Entry& entry : job.request.flags.entries()) {
    message.push_back(Text(static_cast<int64_t>(entry.id)));
    message.push_back(entry.text);
    message.push_back(entry.given);
  }
  return message;
}

CaseJob ReadJob(const Message& message) {
  CaseJob job = {Number(message[0]), message[1], {}};
  job.request.command = static_cast<CommandId>(Number(message[2]));
  job.request.op = message[3];
  for (size_t at = kJobHead; at < message.size(); at += kFlagTexts) {
    job.request.flags.Add(
        {static_cast<FlagId>(Number(message[at])), message[at + 1], message[at + 2], {}});
  }
  return job;
}

Message WriteEnding(const CaseEnding& ending) {
  return {kEndWord,
          ending.text,
          Text(static_cast<int64_t>(ending.status)),
          Text(static_cast<int64_t>(ending.exit_code)),
          ending.why,
          ending.repro,
          ending.accept};
}

CaseEnding ReadEnding(const Message& message) {
  return {message[1],
          static_cast<CaseStatus>(Number(message[2])),
          static_cast<ExitCode>(Number(message[3])),
          message[4],
          message[5],
          message[6]};
}

Message WriteTurnRequest(const TurnRequest& request) {
  return {kEnterWord, Text(request.alone ? 1 : 0), request.entry};
}

TurnRequest ReadTurnRequest(const Message& message) {
  return {Number(message[1]) != 0, message[2]};
}

}  // namespace convgrad::cli
