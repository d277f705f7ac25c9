// The tool's entry: a sound process to run in, then the tool.
#include <string>
#include <vector>

#include "base/file.h"
#include "base/parallel.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/worker_main.h"

int main(int argc, char** argv) {
  convgrad::PrepareStandardStreams();
  const std::vector<std::string> words(argv, argv + argc);
  const convgrad::ScopedFpEnvironment environment;
  if (convgrad::cli::IsWorker(words)) return convgrad::cli::RunWorker(words);
  convgrad::cli::InstallSignalHandlers();
  return convgrad::cli::RunTool(words);
}
