#include "cli/console/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/output_file.h"

namespace convgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string Variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsDumbTerminal() {
  const std::string term = Variable("TERM");
  return term.empty() || term == "dumb";
}

bool WantsColor(const std::string& choice, int descriptor) {
  if (choice == "always" || choice == "never") return choice == "always";
  return isatty(descriptor) != 0 && !IsDumbTerminal() && Variable("NO_COLOR").empty();
}

const char* CodeOf(Color color) {
  switch (color) {
    case Color::kNone: return "";
    case Color::kGreen: return "\x1b[32m";
    case Color::kYellow: return "\x1b[33m";
    case Color::kRed: return "\x1b[31m";
    case Color::kBold: return "\x1b[1m";
  }
  return "";
}

// There is nobody to tell if this fails.
void WriteToStandardError(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(STDERR_FILENO, text.data(), text.size());
    if (done <= 0) return;
    text.remove_prefix(static_cast<size_t>(done));
  }
}

}  // namespace

Console::Console(const Arguments& arguments)
    : quiet_(arguments.Has(FlagId::kQuiet)), verbose_(arguments.Has(FlagId::kVerbose)) {
  const std::string choice = arguments.Get(FlagId::kColor, "auto");
  paints_ = WantsColor(choice, STDOUT_FILENO);
  paints_errors_ = WantsColor(choice, STDERR_FILENO);
  shows_progress_ = !quiet_ && isatty(STDERR_FILENO) != 0 && !IsDumbTerminal();
  for (const Flag& flag : AllFlags()) {
    if (FileOf(flag) == FlagFile::kWritten && arguments.Get(flag.id, "") == "-") {
      stdout_is_taken_ = true;
    }
  }
}

void Console::Result(std::string_view text) {
  if (!quiet_ && !stdout_is_taken_) result_ += text;
}

void Console::BadResult(std::string_view text) {
  if (quiet_ || stdout_is_taken_) {
    WriteToStandardError(text);
  } else {
    result_ += text;
  }
}

void Console::Announce(std::string_view text) const {
  WriteToStandardError(text);
}

void Console::Print(std::string_view text) {
  result_ += text;
}

void Console::Detail(const std::string& text) const {
  if (verbose_) WriteToStandardError(EscapeControls(text) + "\n");
}

void Console::Note(const std::string& text) const {
  if (!quiet_) WriteToStandardError(fmt::format("convgrad: {}\n", EscapeControls(text)));
}

void Console::Warn(const std::string& text) const {
  if (!quiet_) WriteToStandardError(fmt::format("convgrad: warning: {}\n", EscapeControls(text)));
}

void Console::Fail(const Error& error) const {
  const char* begin = paints_errors_ ? CodeOf(Color::kRed) : "";
  const char* end = paints_errors_ ? "\x1b[0m" : "";
  WriteToStandardError(fmt::format("convgrad: {}error:{} {}\n", begin, end, error.message()));
}

std::string Console::Paint(Color color, const std::string& text) const {
  return paints_ && color != Color::kNone ? CodeOf(color) + text + "\x1b[0m" : text;
}

void Console::Flush() {
  if (result_.empty()) return;
  const std::string text = std::exchange(result_, {});
  WriteTextFile("-", text);
}

Console Console::WithoutProgress() const {
  Console console = *this;
  console.shows_progress_ = false;
  return console;
}

Progress::Progress(const Console& console, std::string what)
    : Progress(console, [what = std::move(what), begin = Clock::now()] {
        const std::chrono::duration<double> elapsed = Clock::now() - begin;
        return fmt::format("{} ... {:.0f} s", what, elapsed.count());
      }) {}

Progress::Progress(const Console& console, std::function<std::string()> text)
    : text_(std::move(text)) {
  if (!console.shows_progress()) return;
  try {
    thread_ = std::thread([this] { Show(); });
  } catch (const std::system_error&) {
    // No thread to be had: then there is no progress line.
  }
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::Show() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) return;
  do {
    WriteToStandardError("\r\x1b[K" + text_());
  } while (!changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return ended_; }));
  WriteToStandardError("\r\x1b[K");
}

}  // namespace convgrad::cli
