#include "cli/batch/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace convgrad::cli {
namespace {

constexpr int kIdleMilliseconds = 50;
// No more is allocated before any of it has come: a number of bytes alone may be a wrong one.
constexpr size_t kMaxUnseenBytes = 1 << 20;

void PutNumber(char* into, size_t number) {
  const uint32_t value = static_cast<uint32_t>(number);
  std::memcpy(into, &value, sizeof(value));
}

size_t NumberAt(const char* from) {
  uint32_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

void AppendNumber(std::string& bytes, size_t number) {
  bytes.resize(bytes.size() + sizeof(uint32_t));
  PutNumber(bytes.data() + bytes.size() - sizeof(uint32_t), number);
}

[[noreturn]] void ThrowUnusable(int error_number) {
  ThrowSystemError("the socket between a batch and its worker", "used", error_number);
}

// Judges a call on the socket: how much was done, 0 to try again, -1 for an end.
ssize_t Judge(ssize_t done) {
  if (done > 0) return done;
  if (done == 0 || errno == EPIPE || errno == ECONNRESET) return -1;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  ThrowUnusable(errno);
}

// The texts, each with its number of bytes in front; none if the numbers don't fit.
std::optional<Message> Split(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint32_t)) return std::nullopt;
    const size_t length = NumberAt(bytes.data());
    bytes.remove_prefix(sizeof(uint32_t));
    if (length > bytes.size()) return std::nullopt;
    message.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (message.empty()) return std::nullopt;
  return message;
}

}  // namespace

void Channel::WaitUntilReady(short events, const Idle& idle) const {
  struct pollfd request = {socket_.get(), events, 0};
  for (;;) {
    const int num_ready = poll(&request, 1, idle ? kIdleMilliseconds : -1);
    if (num_ready > 0) return;
    if (num_ready < 0 && errno != EINTR) ThrowUnusable(errno);
    RetryUnlessStopped();
    if (idle) idle();
  }
}

// The number of bytes that follow; then each text with its own number in front.
bool Channel::Send(const Message& message, const Idle& idle) {
  std::string bytes(sizeof(uint32_t), '\0');
  for (const std::string& text : message) {
    AppendNumber(bytes, text.size());
    bytes += text;
  }
  PutNumber(bytes.data(), bytes.size() - sizeof(uint32_t));
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t done = Judge(
        send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (done < 0) return false;
    if (done == 0) WaitUntilReady(POLLOUT, idle);
    sent += static_cast<size_t>(done);
  }
  return true;
}

std::optional<std::string> Channel::Read(size_t size, const Idle& idle) {
  std::string bytes;
  for (size_t got = 0; got < size;) {
    if (got == bytes.size()) bytes.resize(std::min(size, got + kMaxUnseenBytes));
    const ssize_t done =
        Judge(recv(socket_.get(), bytes.data() + got, bytes.size() - got, MSG_DONTWAIT));
    if (done < 0) return std::nullopt;
    if (done == 0) WaitUntilReady(POLLIN, idle);
    got += static_cast<size_t>(done);
  }
  return bytes;
}

std::optional<Message> Channel::Receive(const Idle& idle) {
  const auto size = Read(sizeof(uint32_t), idle);
  if (!size) return std::nullopt;
  const auto bytes = Read(NumberAt(size->data()), idle);
  if (!bytes) return std::nullopt;
  return Split(*bytes);
}

void Channel::EndSending() const {
  shutdown(socket_.get(), SHUT_WR);
}

bool Channel::WaitForEnd(std::chrono::milliseconds patience) const {
  const auto end = std::chrono::steady_clock::now() + patience;
  struct pollfd request = {socket_.get(), 0, 0};  // POLLHUP comes unasked
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() < 0) return false;
    if (poll(&request, 1, static_cast<int>(left.count())) > 0) return true;
  }
}

std::pair<FileDescriptor, FileDescriptor> MakeSocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    ThrowSystemError("a worker process", "started", errno);
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace convgrad::cli
