// The tool's entry: a sound process to run in, then the tool.
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "cli/batch/worker_main.h"
#include "cli/session/session.h"
#include "cli/session/signals.h"

namespace {

// Where there is not even memory to read the words, or to report that there is none.
int EndWithoutMemory() {
  constexpr std::string_view kMessage =
      "convgrad: error: memory: an allocation failed; free memory or use smaller tensors\n";
  [[maybe_unused]] const ssize_t done = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  return static_cast<int>(convgrad::ExitCode::kIo);
}

// Takes the stack that throwing needs while there is memory: where the address space is used up, a
// stack that can't grow ends the process with a signal.
[[gnu::noinline]] void GrowStack() {
  constexpr size_t kBytes = 64 << 10;
  constexpr size_t kPage = 4 << 10;
  [[maybe_unused]] volatile char stack[kBytes];
  for (size_t at = 0; at < kBytes; at += kPage) stack[at] = 0;
}

// Ends the process before it begins where there is no memory to throw an exception in: the C++
// runtime's reserve for that is lacking then too, and without the reserve an error ends in an
// abort. The objects that are made before main() come after this: they take memory, and could
// throw.
[[gnu::constructor(101)]] void RequireMemoryToThrow() {
  constexpr size_t kBytes = 256 << 10;
  void* volatile memory = std::malloc(kBytes);  // volatile: else nothing need be allocated
  if (memory == nullptr) _exit(EndWithoutMemory());
  std::free(memory);
}

}  // namespace

int main(int argc, char** argv) try {
  GrowStack();
  convgrad::PrepareStandardStreams();
  const std::vector<std::string> words(argv, argv + argc);
  const convgrad::ScopedFpEnvironment environment;
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::RunWorker(words);
  convgrad::cli::InstallSignalHandlers();
  return convgrad::cli::RunTool(words);
} catch (const std::bad_alloc&) {
  return EndWithoutMemory();
}
