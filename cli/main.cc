// The tool's entry: a sound process to run in, then the tool.
#include <string>
#include <vector>

#include "base/file.h"
#include "base/parallel.h"
#include "cli/batch/worker_main.h"
#include "cli/session/session.h"
#include "cli/session/signals.h"

int main(int argc, char** argv) {
  convgrad::PrepareStandardStreams();
  const std::vector<std::string> words(argv, argv + argc);
  const convgrad::ScopedFpEnvironment environment;
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::RunWorker(words);
  convgrad::cli::InstallSignalHandlers();
  return convgrad::cli::RunTool(words);
}
