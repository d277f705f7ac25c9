// Any bytes as the report of a shard, alone or merged with itself, or, up to a line feed and after
// it, as those of two shards, whose parts of cases are put together: refused, or a report whose
// entries are all JSON, and whose page's data can't end the element that they stand in.
#include <vector>

#include "cli/batch/whole_case.h"
#include "cli/page/page_data.h"
#include "cli/report/merge.h"
#include "cli/text/json.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

void CheckPage(const cli::MergedReport& merged) {
  cli::PageData page;
  page.Begin("any.json");
  merged.ForEachEntry([&](std::string_view entry) {
    try {
      page.Add(entry);
    } catch (const Error&) {
      // It lacks what a page needs.
    }
  });
  page.Describe(cli::DumpJson(merged.Context("convgrad merge")), "");
  const std::string data = page.Render(size_t{1} << 16);
  cli::ParseJson(data);
  Expect(data.find('<') == std::string::npos, "data that may end their element");
}

void PutCasesTogether(cli::MergedReport& merged) {
  const cli::Console silent(cli::Arguments({"convgrad", "--quiet"}));
  for (const cli::MergedReport::SplitCase& one : merged.split_cases()) {
    const cli::WholeCase whole = cli::PutCaseTogether(one, {"convgrad", 1, 1 << 20}, silent);
    merged.SetEntry(one, whole.entry, whole.exit_code);
  }
}

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  const unsigned num_shards = 1 + bytes.Choose(3);
  std::vector<std::string> paths = {scratch.Write("any.json", bytes.rest())};
  if (num_shards == 2) paths.push_back(paths.front());
  if (num_shards == 3) {
    const size_t end = std::min(bytes.rest().find('\n'), bytes.rest().size());
    paths = {scratch.Write("first.json", bytes.rest().substr(0, end)),
             scratch.Write("second.json", bytes.rest().substr(end))};
  }
  return Accepts([&] {
    cli::MergedReport merged(paths);
    PutCasesTogether(merged);
    merged.Context("convgrad merge");
    merged.Warnings();
    merged.exit_code();
    Expect(merged.num_shards() == static_cast<int64_t>(paths.size()), "another number of shards");
    int64_t entries = 0;
    merged.ForEachEntry([&](std::string_view entry) {
      cli::ParseJson(entry);
      ++entries;
    });
    Expect(entries == merged.num_cases(), "another number of entries");
    CheckPage(merged);
  });
}

}  // namespace convgrad::fuzzing
