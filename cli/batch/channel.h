// Messages between this program and a worker of its own, over a socket: lists of texts, any bytes.
// Must not know what they mean.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"

namespace convgrad::cli {

using Message = std::vector<std::string>;

class Channel {
 public:
  // Called now and then while this side waits for the other; may throw to end that.
  using Idle = std::function<void()>;

  explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

  // False when the other side is gone. Throws I/O errors where the socket can't be used.
  bool Send(const Message& message, const Idle& idle = {});
  // Likewise; the next message, of at least one text; none when the other side is gone, or sent
  // something else.
  std::optional<Message> Receive(const Idle& idle = {});

  // Waits until the other side is gone; false if it still was there after `patience`.
  bool WaitForEnd(std::chrono::milliseconds patience) const;

  // Nothing more comes from this side: the other side's Receive() ends.
  void EndSending() const;

 private:
  // The next `size` bytes; none when the other side is gone before.
  std::optional<std::string> Read(size_t size, const Idle& idle);
  void WaitUntilReady(short events, const Idle& idle) const;

  FileDescriptor socket_;
};

// Both ends of a new socket, each closed in other programs that are started. Throws I/O errors.
std::pair<FileDescriptor, FileDescriptor> MakeSocketPair();

}  // namespace convgrad::cli
