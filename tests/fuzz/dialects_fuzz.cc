// A dialect's name on the first line, then any bytes as a log of it: every line is counted once,
// and what is taken for a case is one that a manifest may have. Accepted: a log in which nothing
// was refused and something taken.
#include <algorithm>

#include "cli/dialects/import.h"
#include "cli/manifest/manifest.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

int64_t CasesIn(const std::string& lines) {
  const cli::ManifestFile file("cases", lines);
  const cli::ManifestOptions options;
  cli::ManifestReader reader(file, options);
  int64_t calls = 0;
  while (const auto one = reader.Next()) {
    cli::ParseCase(one->request);
    calls += one->count;
  }
  return calls;
}

}  // namespace

bool Check(Bytes bytes) {
  std::string_view rest = bytes.rest();
  const size_t end = std::min(rest.find('\n'), rest.size());
  const std::string name(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  const cli::Dialect* dialect = nullptr;
  if (!Accepts([&] { dialect = &cli::FindDialect(name); })) return false;
  if (dialect->make_reader == nullptr) return false;

  cli::LogImport log("log", {&dialect, 1});
  log.Read([&rest](char* into, size_t size) {
    const size_t count = std::min(size, rest.size());
    rest.copy(into, count);
    rest.remove_prefix(count);
    return count;
  });
  int64_t refused = 0;
  for (const auto& [reason, tally] : log.refusals()) refused += tally.count;
  Expect(refused == log.num_refused(), "a refusal that is not counted");
  std::string lines;
  log.WriteCases(false, [&lines](const std::string& line) { lines += line; });
  int64_t calls = 0;
  Expect(log.num_cases() == 0 || Accepts([&] { calls = CasesIn(lines); }), "a case of no manifest");
  Expect(log.num_cases() == 0 || calls == log.num_calls(), "a call that is lost");
  return log.num_refused() == 0 && log.num_cases() > 0;
}

}  // namespace convgrad::fuzzing
