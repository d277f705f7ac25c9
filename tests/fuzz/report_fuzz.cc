// Any bytes as the report of a shard, merged with itself or alone: refused, or a report whose
// entries are all JSON.
#include <vector>

#include "cli/report/merge.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
bool Check(Bytes bytes) {
  static const Scratch scratch;
  const bool twice = bytes.Choose(2) == 1;
  const std::string path = scratch.Write("any.json", bytes.rest());
  return Accepts([&] {
    const cli::MergedReport merged(twice ? std::vector<std::string>{path, path}
                                         : std::vector<std::string>{path});
    merged.Context("convgrad merge");
    merged.Warnings();
    merged.exit_code();
    int64_t entries = 0;
    merged.ForEachEntry([&](std::string_view entry) {
      cli::ParseJson(entry);
      ++entries;
    });
    Expect(entries == merged.num_cases(), "another number of entries");
  });
}

}  // namespace convgrad::fuzzing
