#include "cli/batch/worker_messages.h"

#include <charconv>
#include <limits>

namespace convgrad::cli {
namespace {

constexpr size_t kJobHead = 11;   // texts before the tags
constexpr size_t kFlagTexts = 3;  // of each flag
constexpr size_t kEndingTexts = 7;
constexpr size_t kTurnTexts = 3;

std::string Text(int64_t number) {
  return std::to_string(number);
}

// Below `limit`, and written as Text() writes it.
std::optional<int64_t> Number(const std::string& text,
                              int64_t limit = std::numeric_limits<int64_t>::max()) {
  int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number < 0 || number >= limit || Text(number) != text) return std::nullopt;
  return number;
}

}  // namespace

// Places in the manifest stay behind: whatever names them was found before a case runs.
Message WriteJob(const CaseJob& job) {
  const PartJob whole = {{0, 0, {}}, "", ""};
  const PartJob& part = job.part ? *job.part : whole;
  Message message = {Text(job.index),
                     job.identity,
                     Text(static_cast<int64_t>(job.request.command)),
                     job.request.op,
                     Text(part.part.number),
                     Text(part.part.count),
                     Text(part.part.images.begin),
                     Text(part.part.images.end),
                     part.path,
                     part.identity,
                     Text(static_cast<int64_t>(job.tags.size()))};
  message.insert(message.end(), job.tags.begin(), job.tags.end());
  for (const FlagValues::Entry& entry : job.request.flags.entries()) {
    message.push_back(Text(static_cast<int64_t>(entry.id)));
    message.push_back(entry.text);
    message.push_back(entry.given);
  }
  return message;
}

std::optional<CaseJob> ReadJob(const Message& message) {
  if (message.size() < kJobHead) return std::nullopt;
  const auto num_tags =
      Number(message[kJobHead - 1], static_cast<int64_t>(message.size() - kJobHead) + 1);
  if (!num_tags) return std::nullopt;
  const size_t flags_begin = kJobHead + static_cast<size_t>(*num_tags);
  if ((message.size() - flags_begin) % kFlagTexts != 0) return std::nullopt;
  const auto index = Number(message[0]);
  const auto command = Number(message[2], static_cast<int64_t>(CommandId::kHelp));
  const auto part = Number(message[4]), parts = Number(message[5]);
  const auto begin = Number(message[6]), end = Number(message[7]);
  if (!index || !command || !part || !parts || !begin || !end) return std::nullopt;
  CaseJob job = {*index, message[1], {}};
  if (*parts > 0) job.part = {{*part, *parts, {*begin, *end}}, message[8], message[9]};
  job.request.command = static_cast<CommandId>(*command);
  job.request.op = message[3];
  job.tags.assign(message.begin() + kJobHead,
                  message.begin() + static_cast<std::ptrdiff_t>(flags_begin));
  for (size_t at = flags_begin; at < message.size(); at += kFlagTexts) {
    const auto flag = Number(message[at], static_cast<int64_t>(AllFlags().size()));
    if (!flag) return std::nullopt;
    job.request.flags.Add({static_cast<FlagId>(*flag), message[at + 1], message[at + 2], {}});
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

std::optional<CaseEnding> ReadEnding(const Message& message) {
  if (message.size() != kEndingTexts) return std::nullopt;
  const auto status = Number(message[2], kNumCaseStatuses);
  const auto number = Number(message[3]);
  const auto exit_code = number ? ToExitCode(*number) : std::nullopt;
  if (!status || !exit_code) return std::nullopt;
  return CaseEnding{
      message[1], static_cast<CaseStatus>(*status), *exit_code, message[4], message[5], message[6]};
}

Message WriteTurnRequest(const TurnRequest& request) {
  return {kEnterWord, Text(request.alone ? 1 : 0), request.entry};
}

std::optional<TurnRequest> ReadTurnRequest(const Message& message) {
  if (message.size() != kTurnTexts) return std::nullopt;
  const auto alone = Number(message[1], 2);
  if (!alone) return std::nullopt;
  return TurnRequest{*alone != 0, message[2]};
}

}  // namespace convgrad::cli
