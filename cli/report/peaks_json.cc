#include "cli/report/peaks_json.h"

#include <cstdint>
#include <limits>

#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

[[noreturn]] void Refuse() {
  throw Json::other_error::create(501, "no peaks", nullptr);
}

double Rate(const Json& json) {
  const double rate = json.get<double>();
  if (!(rate > 0 && rate < 1e9)) Refuse();
  return rate;
}

// A whole number from `low` on.
template <class Int>
Int Count(const Json& json, Int low) {
  if (!json.is_number_integer()) Refuse();
  const int64_t count = json.get<int64_t>();
  if (count < low || count > std::numeric_limits<Int>::max()) Refuse();
  return static_cast<Int>(count);
}

}  // namespace

Json PeaksToJson(const Peaks& peaks) {
  Json levels = Json::array();
  for (const LevelPeak& level : peaks.levels) {
    Json json = {{"level", level.name}, {"capacity_bytes", nullptr}};
    if (level.capacity > 0) json["capacity_bytes"] = level.capacity;
    json["read_gbs"] = level.read_gbs;
    json["write_gbs"] = level.write_gbs;
    levels.push_back(json);
  }
  return {{"isa", NameOf(peaks.isa)},
          {"threads", peaks.num_threads},
          {"gflops", {{"float32", peaks.f32_gflops}, {"float64", peaks.f64_gflops}}},
          {"bandwidth", levels},
          {"confirmed", peaks.confirmed}};
}

Peaks PeaksFromJson(const Json& json) {
  Peaks peaks;
  const auto isa = ParseIsa(json.at("isa").get<std::string>());
  if (!isa) Refuse();
  peaks.isa = *isa;
  peaks.num_threads = Count<int>(json.at("threads"), 1);
  peaks.f32_gflops = Rate(json.at("gflops").at("float32"));
  peaks.f64_gflops = Rate(json.at("gflops").at("float64"));
  for (const Json& level : json.at("bandwidth")) {
    const Json& capacity = level.at("capacity_bytes");
    peaks.levels.push_back({level.at("level").get<std::string>(),
                            capacity.is_null() ? 0 : Count<int64_t>(capacity, 1),
                            Rate(level.at("read_gbs")), Rate(level.at("write_gbs"))});
  }
  peaks.confirmed = json.at("confirmed").get<bool>();
  if (peaks.levels.empty() || peaks.levels.back().name != "memory") Refuse();
  return peaks;
}

}  // namespace convgrad::cli
