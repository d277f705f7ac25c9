// The tool's entry: a sound process to run in, then the tool.
#include "base/file.h"
#include "base/parallel.h"
#include "cli/session.h"
#include "cli/signals.h"

int main(int argc, char** argv) {
  convgrad::PrepareStandardStreams();
  convgrad::cli::InstallSignalHandlers();
  const convgrad::ScopedFpEnvironment environment;
  return convgrad::cli::RunTool({argv, argv + argc});
}
