// Any bytes as the events file of a batch: what an entry says of one case is taken or not, and the
// file is refused and left as it was, or the next run's entry is appended to it and found.
#include "cli/batch/journal.h"
#include "cli/batch/resume.h"
#include "cli/text/json.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

constexpr int64_t kIndex = 3;

std::string Identity() {
  return std::string(64, '1');
}

// A case with an input file of zeros, to which an entry's hash can belong.
cli::CaseSpec MakeCase(const Scratch& scratch) {
  const std::string zeros(4 * sizeof(float), '\0');
  const std::string input =
      scratch.Write("x.npy", NpyHeaderBytes(DType::kFloat32, {1, 2, 2, 1}) + zeros);
  const cli::Arguments arguments({"convgrad", "run", "conv2d", "--padding", "SAME", "--input",
                                  input, "--filter", "fill:ones@1,1,1,1"});
  return cli::ParseCase(cli::RequestOf(arguments));
}

bool Resumes(const std::string& path, const cli::CaseSpec& spec) {
  std::optional<std::string> line;
  if (!Accepts([&] { line = cli::JournalIndex(path).Find(Identity()); }) || !line) return false;
  const std::optional<cli::ResumedEntry> resumed = cli::ResumeFrom(*line, spec, kIndex);
  if (!resumed) return false;
  const cli::Json entry = cli::ParseJson(resumed->text);
  Expect(entry.at("family_index") == kIndex && entry.at("resumed") == true,
         "not marked as resumed");
  return true;
}

void ExpectAppended(const std::string& path, std::string_view before, const std::string& entry) {
  const std::string after = Scratch::Read(path);
  Expect(after.starts_with(before), "what was there was changed");
  Expect(after.ends_with("\n" + entry + "\n") || after == entry + "\n", "not a line of its own");
  Expect(cli::JournalIndex(path).Find(Identity()) == entry, "the entry is not found");
}

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  static const cli::CaseSpec spec = MakeCase(scratch);
  const std::string path = scratch.Write("any.jsonl", bytes.rest());
  const bool resumes = Resumes(path, spec);
  const std::string entry = cli::DumpJson({{"name", "a"},
                                           {"family_index", 0},
                                           {"identity", Identity()},
                                           {"status", "PASSED"},
                                           {"exit_code", 0}});
  if (!Accepts([&] { cli::Journal(path).Add(entry); })) {
    Expect(Scratch::Read(path) == bytes.rest(), "a refused file was changed");
    return false;
  }
  ExpectAppended(path, bytes.rest(), entry);
  return resumes;
}

}  // namespace convgrad::fuzzing
