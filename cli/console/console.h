// The words for people: results on standard output, everything else on standard error, and the
// progress line on a terminal. Must not know what is computed.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "cli/options/arguments.h"

namespace convgrad::cli {

enum class Color { kNone, kGreen, kYellow, kRed, kBold };

class Console {
 public:
  explicit Console(const Arguments& arguments);

  // Adds to the result. Nothing is written before Flush(), so that an error leaves no half result;
  // text for people gives way to a file or report that goes to standard output.
  void Result(std::string_view text);
  // The same for a result that is not right, which must be seen: on standard error where --quiet or
  // what goes to standard output would hide it.
  void BadResult(std::string_view text);
  // On standard error, whatever --quiet says: for programs that read it.
  void Announce(std::string_view text) const;
  // The JSON or roff that the command exists to print: --quiet does not silence it.
  void Print(std::string_view text);
  // Details for --verbose, notes and warnings unless --quiet: at once, on standard error.
  void Detail(const std::string& text) const;
  void Note(const std::string& text) const;
  void Warn(const std::string& text) const;
  void Fail(const Error& error) const;

  // Text of the result in colour, if colour is wanted there.
  std::string Paint(Color color, const std::string& text) const;

  // A status or a verdict, PASSED or SLOWER, in its colour.
  std::string PaintWord(const std::string& word) const;

  // Writes the result. Throws I/O errors.
  void Flush();

  // The same without a progress line: of one case among many.
  Console WithoutProgress() const;

  bool shows_progress() const { return shows_progress_; }

  // Columns of text on standard output: the terminal's, or a hundred in a file.
  static size_t Width();

 private:
  bool quiet_ = false;
  bool verbose_ = false;
  bool paints_ = false;         // standard output
  bool paints_errors_ = false;  // standard error
  bool shows_progress_ = false;
  bool stdout_is_taken_ = false;  // by --output -, --report - or the like
  std::string result_;
};

// While it lives, a line on the terminal tells what goes on and for how long, once that has taken
// more than a second. Removes the line at its end.
class Progress {
 public:
  Progress(const Console& console, std::string what);
  // A text that changes, without the time.
  Progress(const Console& console, std::function<std::string()> text);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void Show();

  std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace convgrad::cli
