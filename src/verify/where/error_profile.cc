#include "verify/where/error_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace convgrad {
namespace {

constexpr int64_t kMostBins = 256;      // of an axis
constexpr int64_t kMostCells = 64;      // of one side of a grid
constexpr size_t kMostWorst = 10;       // elements
constexpr size_t kMostModelled = 4096;  // elements, taken evenly
constexpr int kLeastExponent = -40, kMostExponent = 64;

// The part of an axis of `size` positions that a position lies in, where it has `parts`.
int64_t PartOf(int64_t position, int64_t size, int64_t parts) {
  return size <= parts ? position : position * parts / size;
}

double WithSignOf(double size, double sign) {
  return std::signbit(sign) ? -size : size;
}

class HistogramBuilder {
 public:
  void Add(double size) {
    if (size == 0) {
      ++zero_;
    } else if (!std::isfinite(size)) {
      ++infinite_;
    } else {
      const int exponent = std::clamp(std::ilogb(size), kLeastExponent, kMostExponent - 1);
      ++counts_[static_cast<size_t>(exponent - kLeastExponent)];
    }
  }

  // Without the empty ends.
  ErrorHistogram Finish() const {
    ErrorHistogram histogram;
    histogram.zero = zero_;
    histogram.infinite = infinite_;
    size_t begin = 0, end = counts_.size();
    while (begin < end && counts_[begin] == 0) ++begin;
    while (end > begin && counts_[end - 1] == 0) --end;
    if (begin < end) histogram.first = kLeastExponent + static_cast<int>(begin);
    histogram.counts.assign(counts_.begin() + static_cast<std::ptrdiff_t>(begin),
                            counts_.begin() + static_cast<std::ptrdiff_t>(end));
    return histogram;
  }

 private:
  std::vector<int64_t> counts_ = std::vector<int64_t>(kMostExponent - kLeastExponent);
  int64_t zero_ = 0, infinite_ = 0;
};

// P(|round(U + e)| <= k) for U uniform in one unit and e normal of that deviation, both of mean 0:
// how far the rounded number is from the exact one's.
double ChanceWithin(double k, double deviation) {
  if (deviation == 0) return 1;
  // The integral of the normal distribution function.
  const auto integral = [](double t) {
    return t * 0.5 * std::erfc(-t / std::sqrt(2)) +
           std::exp(-t * t / 2) / std::sqrt(2 * std::acos(-1.0));
  };
  const auto below = [&](double x) {
    return deviation * (integral((x + 0.5) / deviation) - integral((x - 0.5) / deviation));
  };
  return std::clamp(below(k + 0.5) - below(-k - 0.5), 0.0, 1.0);
}

// Elements by the model with no error, then in each of `num_bins` that begin at one ULP.
std::vector<double> ModelOf(std::span<const float> model, size_t num_bins) {
  std::vector<double> expected(num_bins + 1);
  const size_t step = std::max<size_t>(1, model.size() / kMostModelled);
  const size_t taken = (model.size() + step - 1) / step;
  const double each = static_cast<double>(model.size()) / static_cast<double>(taken);
  for (size_t i = 0; i < model.size(); i += step) {
    double before = ChanceWithin(0, model[i]);
    expected[0] += each * before;
    for (size_t bin = 0; bin < num_bins; ++bin) {
      const double within = ChanceWithin(std::ldexp(1, static_cast<int>(bin) + 1) - 1, model[i]);
      expected[bin + 1] += each * std::max(0.0, within - before);
      before = within;
    }
  }
  return expected;
}

// Bins from one ULP on, as many as the counts and the model need.
void AlignWithModel(std::span<const float> model, ErrorProfile& profile) {
  ErrorHistogram& ulps = profile.ulps;
  ulps.counts.insert(ulps.counts.begin(), static_cast<size_t>(std::max(ulps.first, 0)), 0);
  ulps.first = 0;
  if (model.empty()) return;
  const auto largest = static_cast<double>(*std::max_element(model.begin(), model.end()));
  constexpr double kDeviations = 5;  // beyond, there is next to nothing
  const double reach = std::clamp(kDeviations * largest, 1.0, std::ldexp(1, kMostExponent - 2));
  const size_t bins = static_cast<size_t>(std::ilogb(reach)) + 1;
  ulps.counts.resize(std::max(ulps.counts.size(), bins));
  profile.model = ModelOf(model, ulps.counts.size());
}

std::vector<LargeError> WorstOf(std::span<const float> errors) {
  std::vector<LargeError> worst;
  const auto is_larger = [](const LargeError& a, const LargeError& b) { return a.error > b.error; };
  for (size_t i = 0; i < errors.size(); ++i) {
    const bool is_full = worst.size() == kMostWorst;
    if (errors[i] == 0 || (is_full && errors[i] <= worst.back().error)) continue;
    if (is_full) worst.pop_back();
    const LargeError one = {static_cast<int64_t>(i), errors[i]};
    worst.insert(std::upper_bound(worst.begin(), worst.end(), one, is_larger), one);
  }
  return worst;
}

// The profiles and grids that a shape has, filled element by element.
class PlaceProfiles {
 public:
  PlaceProfiles(const Layout& layout, ErrorProfile& profile) : shape_(layout.shape()) {
    const auto is_long = [this](size_t axis) { return shape_[axis] > 1; };
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      if (!is_long(axis)) continue;
      const auto bins = static_cast<size_t>(std::min(shape_[axis], kMostBins));
      axes_.push_back(axis);
      profile.axes.push_back({layout.axis_names()[axis], shape_[axis], std::vector<double>(bins),
                              std::vector<double>(bins)});
    }
    for (const auto& [down, across] : layout.AxisPairs()) {
      if (!is_long(down) && !is_long(across)) continue;
      const auto rows = static_cast<size_t>(std::min(shape_[down], kMostCells)),
                 columns = static_cast<size_t>(std::min(shape_[across], kMostCells));
      pairs_.emplace_back(down, across);
      profile.grids.push_back(
          {layout.axis_names()[down], layout.axis_names()[across], shape_[down], shape_[across],
           std::vector<std::vector<double>>(rows, std::vector<double>(columns))});
    }
  }

  void Add(const Shape& index, double error, ErrorProfile& profile) const {
    for (size_t i = 0; i < axes_.size(); ++i) {
      AxisProfile& axis = profile.axes[i];
      const auto bin = static_cast<size_t>(PartOf(index[axes_[i]], axis.size, kMostBins));
      axis.low[bin] = std::min(axis.low[bin], error);
      axis.high[bin] = std::max(axis.high[bin], error);
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      ErrorGrid& grid = profile.grids[i];
      const auto row =
          static_cast<size_t>(PartOf(index[pairs_[i].first], grid.down_size, kMostCells));
      const auto column =
          static_cast<size_t>(PartOf(index[pairs_[i].second], grid.across_size, kMostCells));
      double& worst = grid.worst[row][column];
      if (std::fabs(error) > std::fabs(worst)) worst = error;
    }
  }

 private:
  const Shape& shape_;
  std::vector<size_t> axes_;
  std::vector<std::pair<size_t, size_t>> pairs_;
};

// The next index in C order.
void Advance(const Shape& shape, Shape& index) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) return;
    index[axis] = 0;
  }
}

}  // namespace

ErrorProfile ProfileOf(const ElementErrors& elements, const Layout& layout) {
  ErrorProfile profile;
  const PlaceProfiles places(layout, profile);
  HistogramBuilder errors, ulps;
  Shape index(layout.shape().size());
  for (size_t i = 0; i < elements.errors.size(); ++i) {
    const double error = WithSignOf(elements.errors[i], elements.ulps[i]);
    if (error != 0) places.Add(index, error, profile);
    errors.Add(std::fabs(error));
    ulps.Add(std::fabs(elements.ulps[i]));
    Advance(layout.shape(), index);
  }
  profile.errors = errors.Finish();
  profile.ulps = ulps.Finish();
  AlignWithModel(elements.model, profile);
  profile.worst = WorstOf(elements.errors);
  return profile;
}

}  // namespace convgrad
