// Any lines as the words of a command line, which is not run: refused, or a command whose flags
// mean something, and which as this program writes it is the same command again.
#include <vector>

#include "cli/batch/batch_options.h"
#include "cli/bench/bench_options.h"
#include "cli/case/case.h"
#include "cli/case/shared_flags.h"
#include "cli/manifest/manifest_flags.h"
#include "cli/text/unicode.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

std::vector<std::string> WordsOf(std::string_view lines) {
  std::vector<std::string> words = {"convgrad"};
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    words.emplace_back(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return words;
}

// Flags with their values, then operands, as texts.
std::vector<std::string> Meaning(const cli::Arguments& arguments) {
  std::vector<std::string> texts;
  for (const cli::FlagValues::Entry& entry : arguments.flags().entries()) {
    texts.emplace_back(InfoOf(entry.id).name);
    texts.push_back(entry.text);
  }
  texts.insert(texts.end(), arguments.operands().begin(), arguments.operands().end());
  return texts;
}

void ExpectSameAgain(const cli::Arguments& arguments) {
  std::vector<std::string> words = {arguments.program(), arguments.command()->name};
  const auto flags = cli::FlagWords(arguments.flags(), /*with_outputs=*/true);
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  words.insert(words.end(), arguments.operands().begin(), arguments.operands().end());
  const cli::Arguments again(words);
  Expect(Accepts([&] { again.Validate(); }), "refused as this program writes it");
  Expect(again.command() == arguments.command(), "another command");
  Expect(Meaning(again) == Meaning(arguments), "other flags or operands");
  Expect(cli::IsValidUtf8(arguments.CommandLine()), "a command line that is no text");
  Expect(cli::IsValidUtf8(arguments.ReproLine()), "a repro line that is no text");
}

// Reads flags as the command does before it opens any file.
void ParseValues(const cli::Arguments& arguments) {
  switch (arguments.command()->id) {
    case cli::CommandId::kRun:
    case cli::CommandId::kCheck: cli::ParseCase(cli::RequestOf(arguments)); break;
    case cli::CommandId::kBatch:
      cli::ParseBatchOptions(arguments);
      cli::ParseManifestOptions(arguments);
      cli::ParseSelection(arguments);
      break;
    case cli::CommandId::kBench: cli::ParseBenchOptions(arguments); break;
    case cli::CommandId::kDiff: cli::ParseCompareOptions(arguments.flags()); break;
    default: cli::ParseThreads(arguments.flags()); break;
  }
}

}  // namespace

bool Check(Bytes bytes) {
  const cli::Arguments arguments(WordsOf(bytes.rest()));
  if (!Accepts([&] { arguments.Validate(); })) return false;
  if (arguments.command() == nullptr) return true;
  ExpectSameAgain(arguments);
  if (arguments.Has(cli::FlagId::kHelp) || arguments.Has(cli::FlagId::kVersion)) return true;
  return Accepts([&] { ParseValues(arguments); });
}

}  // namespace convgrad::fuzzing
