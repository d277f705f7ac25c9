#include "cli/console/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/output_file.h"
#include "base/stopwatch.h"
#include "cli/text/environment.h"

namespace convgrad::cli {
namespace {

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

Color ColorOf(std::string_view word) {
  constexpr std::string_view kGood[] = {"PASSED", "RECORDED", "KEPT", "FASTER", "SAME"};
  constexpr std::string_view kDoubtful[] = {"SUSPECT", "INCONCLUSIVE", "NEW", "MISSING"};
  constexpr std::string_view kBad[] = {"FAILED", "ERROR", "TIMEOUT", "SLOWER"};
  const auto is_in = [word](const auto& words) {
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  };
  if (is_in(kBad)) return Color::kRed;
  if (is_in(kDoubtful)) return Color::kYellow;
  return is_in(kGood) ? Color::kGreen : Color::kNone;
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
  const Command* command = arguments.command();
  const bool is_merge = command != nullptr && command->id == CommandId::kMerge;
  if (is_merge && !arguments.Has(FlagId::kReport)) stdout_is_taken_ = true;
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

// Text that is shown though standard output is silent or taken goes to standard error.
std::string Console::Paint(Color color, const std::string& text) const {
  const bool paints = quiet_ || stdout_is_taken_ ? paints_errors_ : paints_;
  return paints && color != Color::kNone ? CodeOf(color) + text + "\x1b[0m" : text;
}

std::string Console::PaintWord(const std::string& word) const {
  return Paint(ColorOf(word), word);
}

void Console::Flush() {
  if (result_.empty()) return;
  const std::string text = std::exchange(result_, {});
  WriteTextFile("-", text);
}

size_t Console::Width() {
  constexpr size_t kLeast = 40, kOfFiles = 100;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kOfFiles;
  return std::max<size_t>(size.ws_col, kLeast);
}

Console Console::WithoutProgress() const {
  Console console = *this;
  console.shows_progress_ = false;
  return console;
}

Progress::Progress(const Console& console, std::string what)
    : Progress(console, [what = std::move(what), since_begin = Stopwatch()] {
        return fmt::format("{} ... {:.0f} s", what, since_begin.Seconds());
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
