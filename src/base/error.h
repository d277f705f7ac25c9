// Errors as values that know their exit code. Everything that can go wrong because of the
// outside world is thrown as an Error; it must not know how it will be shown.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace convgrad {

// The process's exit codes; the only list of them.
enum class ExitCode : int {
  kOk = 0,          // everything asked for was done and is right
  kWrong = 1,       // a result is wrong
  kUsage = 2,       // flags, attributes, inline sizes, manifest
  kData = 3,        // malformed files, shapes or dtypes that don't fit
  kIo = 4,          // I/O or resources
  kSlow = 5,        // right, but slower than the baseline allows
  kNothingRan = 6,  // a filter matched nothing
  kInternal = 70,   // a defect of this program
};

// The exit code that a report gives as a number, 128 and a signal's among them; none for others.
std::optional<ExitCode> ToExitCode(int64_t number);

// That of several steps: the worst by the order 70, 4, 3, 2, 1, 6, 5; a signal is worse than all.
ExitCode Worse(ExitCode a, ExitCode b);

// One failure: WHAT (the file, flag or tensor), WHY, and the FIX if there is one. `code` is stable
// and machine-readable ("npy/short-data").
class Error : public std::exception {
 public:
  Error(ExitCode exit_code, std::string code, const std::string& what, const std::string& why,
        const std::string& fix = "");

  ExitCode exit_code() const { return exit_code_; }
  const std::string& code() const { return code_; }
  // "WHAT: WHY; FIX" on one line; control characters of the parts are escaped.
  const std::string& message() const { return message_; }
  // The FIX, as the message has it; empty without one.
  const std::string& fix() const { return fix_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ExitCode exit_code_;
  std::string code_;
  std::string fix_;
  std::string message_;
};

// One per class of error.
[[noreturn]] void ThrowUsage(const std::string& code, const std::string& what,
                             const std::string& why, const std::string& fix = "");
[[noreturn]] void ThrowData(const std::string& code, const std::string& what,
                            const std::string& why, const std::string& fix = "");
[[noreturn]] void ThrowIo(const std::string& code, const std::string& what, const std::string& why,
                          const std::string& fix = "");
[[noreturn]] void ThrowInternal(const std::string& why);

// `text` with control characters, of text direction too, as \xNN for each byte, so that a file name
// or a header can't forge lines or colours in a terminal.
std::string EscapeControls(const std::string& text);

}  // namespace convgrad
