// Any bytes as the kept peaks of a machine: refused, or peaks that give a roof to every size and
// are kept and read back the same.
#include "cli/report/peaks_json.h"
#include "cli/text/json.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

std::optional<Peaks> Read(std::string_view text) {
  try {
    return cli::PeaksFromJson(cli::TryParseJson(text));
  } catch (const cli::Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

bool Check(Bytes bytes) {
  const std::optional<Peaks> peaks = Read(bytes.rest());
  if (!peaks) return false;
  Expect(peaks->num_threads > 0, "peaks of no thread");
  Expect(peaks->f32_gflops > 0 && peaks->f64_gflops > 0, "no arithmetic");
  for (int64_t size = 1; size > 0; size = size < INT64_MAX / 2 ? 2 * size : 0) {
    const LevelPeak& level = peaks->LevelOf(size);
    Expect(level.read_gbs > 0 && level.write_gbs > 0, "a level without bandwidth");
    Expect(level.capacity >= 0, "a level of negative size");
  }
  const cli::Json kept = cli::PeaksToJson(*peaks);
  const std::optional<Peaks> again = Read(cli::DumpJson(kept));
  Expect(again && cli::PeaksToJson(*again) == kept, "not read back");
  return true;
}

}  // namespace convgrad::fuzzing
