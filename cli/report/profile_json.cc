#include "cli/report/profile_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "cli/text/json.h"

namespace convgrad::cli {
namespace {

// Three digits are more than a picture shows. Null: not a number where one is expected, or the
// other way round.
Json Short(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  return std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
}

Json Short(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(Short(value));
  return json;
}

Json HistogramJson(const ErrorHistogram& histogram) {
  return {{"first", histogram.first},
          {"counts", histogram.counts},
          {"zero", histogram.zero},
          {"infinite", histogram.infinite}};
}

}  // namespace

Json ProfileJson(const ErrorProfile& profile) {
  Json axes = Json::array(), grids = Json::array();
  for (const AxisProfile& axis : profile.axes) {
    axes.push_back({{"axis", axis.axis},
                    {"size", axis.size},
                    {"low", Short(axis.low)},
                    {"high", Short(axis.high)}});
  }
  for (const ErrorGrid& grid : profile.grids) {
    Json rows = Json::array();
    for (const std::vector<double>& row : grid.worst) rows.push_back(Short(row));
    grids.push_back({{"down", grid.down},
                     {"down_size", grid.down_size},
                     {"across", grid.across},
                     {"across_size", grid.across_size},
                     {"worst", std::move(rows)}});
  }
  Json json = {{"measure", profile.measure},
               {"limit", profile.limit},
               {"axes", std::move(axes)},
               {"grids", std::move(grids)},
               {"errors", HistogramJson(profile.errors)},
               {"ulps", HistogramJson(profile.ulps)}};
  if (!profile.model.empty()) json["model"] = Short(profile.model);
  return json;
}

}  // namespace convgrad::cli
