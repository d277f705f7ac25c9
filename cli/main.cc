// The tool's entry: a sound process to run in, then the tool.
#include <unistd.h>

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

}  // namespace

int main(int argc, char** argv) try {
  convgrad::PrepareStandardStreams();
  const std::vector<std::string> words(argv, argv + argc);
  const convgrad::ScopedFpEnvironment environment;
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::RunWorker(words);
  convgrad::cli::InstallSignalHandlers();
  return convgrad::cli::RunTool(words);
} catch (const std::bad_alloc&) {
  return EndWithoutMemory();
}
