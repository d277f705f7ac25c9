// Any bytes from the other end of a worker's socket: the end of the conversation, or messages of
// which each is none of ours or says the same when it is written again.
#include <sys/socket.h>

#include "cli/batch/worker_messages.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

// Less than any socket holds, so that nobody has to read meanwhile.
constexpr size_t kMaxBytes = 1 << 14;

// True if the message has the sense that its first text says.
bool IsUnderstood(const cli::Message& message) {
  if (message.empty()) return false;
  const std::string& word = message.front();
  if (word == cli::kEndWord) {
    const auto ending = cli::ReadEnding(message);
    if (ending) Expect(cli::WriteEnding(*ending) == message, "another end of the case");
    return ending.has_value();
  }
  if (word == cli::kEnterWord) {
    const auto request = cli::ReadTurnRequest(message);
    if (request) Expect(cli::WriteTurnRequest(*request) == message, "another request for a turn");
    return request.has_value();
  }
  return word == cli::kLeaveWord || word == cli::kGoWord;
}

bool IsJob(const cli::Message& message) {
  const auto job = cli::ReadJob(message);
  if (!job) return false;
  const auto again = cli::ReadJob(cli::WriteJob(*job));
  Expect(again && cli::WriteJob(*again) == cli::WriteJob(*job), "another job");
  return true;
}

}  // namespace

bool Check(Bytes bytes) {
  auto [ours, theirs] = cli::MakeSocketPair();
  const std::string_view sent = bytes.rest().substr(0, kMaxBytes);
  const ssize_t done = send(theirs.get(), sent.data(), sent.size(), 0);
  Expect(done == static_cast<ssize_t>(sent.size()), "the socket holds too little");
  theirs = FileDescriptor();
  cli::Channel channel(std::move(ours));
  int messages = 0;
  bool all_are_ours = true;
  while (const std::optional<cli::Message> message = channel.Receive()) {
    all_are_ours &= IsUnderstood(*message) || IsJob(*message);
    ++messages;
  }
  return messages > 0 && all_are_ours;
}

}  // namespace convgrad::fuzzing
