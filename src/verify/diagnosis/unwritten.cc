#include "verify/diagnosis/unwritten.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "verify/where/where.h"

namespace convgrad {
namespace {

// The least box, and the least run of elements, that holds the unwritten ones.
struct Extent {
  Shape first, last;
  int64_t begin = -1, end = 0;

  void Add(const Layout& layout, int64_t element) {
    const Shape index = layout.IndexOf(element);
    if (begin < 0) {
      first = last = index;
      begin = element;
    }
    end = element + 1;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      first[axis] = std::min(first[axis], index[axis]);
      last[axis] = std::max(last[axis], index[axis]);
    }
  }
  bool Holds(const Shape& index) const {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (index[axis] < first[axis] || index[axis] > last[axis]) return false;
    }
    return true;
  }
  std::string Box() const {
    std::vector<std::string> sides;
    for (size_t axis = 0; axis < first.size(); ++axis) {
      sides.push_back(fmt::format("{}..{}", first[axis], last[axis]));
    }
    return fmt::format("[{}]", fmt::join(sides, ","));
  }
};

bool IsBlank(double value, bool nan) {
  return nan ? std::isnan(value) : value == 0;
}

// Of the elements that are blank in the golden alone.
std::optional<Extent> ExtentOf(const Layout& layout, const Tensor& actual, const Tensor& golden,
                               bool nan) {
  Extent extent;
  VisitFloat(golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* a = actual.data<Stored>();
    const Stored* g = golden.data<Stored>();
    for (int64_t i = 0; i < golden.num_elements(); ++i) {
      if (IsBlank(Widen(g[i]), nan) && !IsBlank(Widen(a[i]), nan)) extent.Add(layout, i);
    }
  });
  if (extent.begin < 0) return std::nullopt;
  return extent;
}

// The right computation, but for zeros at positions without a source.
Hypothesis Unwritten(const Problem& problem, bool nan, const std::string& place, Source source) {
  Alternative alternative(problem);
  alternative.result = std::move(source);
  if (nan) {  // NaNs count as the zeros that are expected there
    VisitFloat(problem.dtype, [&](auto tag) {
      using Stored = typename decltype(tag)::Type;
      alternative.golden = [](uint64_t bits) {
        const double value = FromBits<Stored>(bits);
        return std::isnan(value) ? 0.0 : value;
      };
    });
  }
  return {nan ? "unwritten-nan" : "unwritten-zeros",
          fmt::format("the golden is right but for {}, which is all {}: that part was never "
                      "written, or overwritten",
                      place, nan ? "NaN" : "zero"),
          std::move(alternative)};
}

}  // namespace

std::vector<Hypothesis> UnwrittenParts(const Problem& problem, const Tensor& actual,
                                       const Tensor& golden) {
  std::vector<Hypothesis> parts;
  const Layout layout(problem);
  for (const bool nan : {false, true}) {
    const std::optional<Extent> extent = ExtentOf(layout, actual, golden, nan);
    if (!extent) continue;
    parts.push_back(
        Unwritten(problem, nan, extent->Box(), [extent = *extent, layout](int64_t position) {
          return extent.Holds(layout.IndexOf(position)) ? -1 : position;
        }));
    parts.push_back(Unwritten(
        problem, nan, fmt::format("elements {} to {} in memory", extent->begin, extent->end - 1),
        [begin = extent->begin, end = extent->end](int64_t position) {
          return begin <= position && position < end ? -1 : position;
        }));
  }
  return parts;
}

}  // namespace convgrad
