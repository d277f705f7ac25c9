#include "verify/diagnosis/unwritten.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
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
  int64_t count = 0;

  void Add(const Layout& layout, int64_t element) {
    const Shape index = layout.IndexOf(element);
    if (begin < 0) {
      first = last = index;
      begin = element;
    }
    end = element + 1;
    ++count;
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
  int64_t BoxSize() const {
    int64_t size = 1;
    for (size_t axis = 0; axis < first.size(); ++axis) size *= last[axis] - first[axis] + 1;
    return size;
  }
  std::string Box() const {
    std::vector<std::string> sides;
    for (size_t axis = 0; axis < first.size(); ++axis) {
      sides.push_back(fmt::format("{}..{}", first[axis], last[axis]));
    }
    return fmt::format("[{}]", fmt::join(sides, ","));
  }
};

// The numbers that fill a part that nobody wrote.
struct Blank {
  const char* name;                     // of the hypothesis
  std::string what;                     // "all zero"
  std::function<bool(double)> matches;  // a number of the golden
  bool with_others = false;             // other numbers may lie between them
  bool may_be_all = true;               // else some of the golden has to be right
};

// The extent of the elements that are blank in the golden alone.
std::optional<Extent> ExtentOf(const Layout& layout, const Tensor& actual, const Tensor& golden,
                               const Blank& blank) {
  Extent extent;
  VisitFloat(golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* a = actual.data<Stored>();
    const Stored* g = golden.data<Stored>();
    for (int64_t i = 0; i < golden.num_elements(); ++i) {
      if (blank.matches(Widen(g[i])) && !blank.matches(Widen(a[i]))) extent.Add(layout, i);
    }
  });
  if (extent.begin < 0) return std::nullopt;
  return extent;
}

// The right computation, but for blanks at positions that `is_unwritten`. They count as the zeros
// that are expected there; what lies between them, where it may, as nothing.
Hypothesis Unwritten(const Problem& problem, const Tensor& golden, const Blank& blank,
                     const std::string& place, std::function<bool(int64_t)> is_unwritten) {
  Alternative alternative(problem);
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    alternative.golden = [matches = blank.matches](uint64_t bits) {
      const double value = FromBits<Stored>(bits);
      return matches(value) ? 0.0 : value;
    };
    alternative.result = [golden, matches = blank.matches, with_others = blank.with_others,
                          is_unwritten = std::move(is_unwritten)](int64_t position) {
      if (!is_unwritten(position)) return position;
      const bool is_blank = !with_others || matches(Widen(golden.data<Stored>()[position]));
      return is_blank ? int64_t{-1} : kAnything;
    };
  });
  return {blank.name,
          fmt::format("the golden is right but for {}, which is {}: that part was never written, "
                      "or overwritten",
                      place, blank.what),
          std::move(alternative)};
}

double LargestOf(const Tensor& tensor) {
  double largest = 0;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const double size = std::fabs(Widen(tensor.data<typename decltype(tag)::Type>()[i]));
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
  });
  return largest;
}

// The number that the golden's last wrong element has, if it has it more than once.
std::optional<double> RepeatedAtTheEnd(const Tensor& actual, const Tensor& golden) {
  return VisitFloat(golden.dtype(), [&](auto tag) -> std::optional<double> {
    using Stored = typename decltype(tag)::Type;
    const Stored* a = actual.data<Stored>();
    const Stored* g = golden.data<Stored>();
    int64_t last = golden.num_elements() - 1;
    while (last > 0 && Widen(g[last]) == Widen(a[last])) --last;
    if (last < 1 || Widen(g[last]) != Widen(g[last - 1])) return std::nullopt;
    return Widen(g[last]);
  });
}

std::vector<Blank> BlanksOf(const Tensor& actual, const Tensor& golden) {
  std::vector<Blank> blanks = {
      {"unwritten-zeros", "all zero", [](double value) { return value == 0; }},
      {"unwritten-nan", "all NaN", [](double value) { return std::isnan(value); }}};
  if (golden.num_elements() == 0) return blanks;
  if (const std::optional<double> number = RepeatedAtTheEnd(actual, golden);
      number && *number != 0 && !std::isnan(*number)) {
    blanks.push_back({"unwritten-constant", fmt::format("all {:.6g}", *number),
                      [number = *number](double value) { return value == number; },
                      /*with_others=*/false, /*may_be_all=*/false});
  }
  // Numbers that no sum of these operands comes near, as chance bits in memory are.
  const double largest = LargestOf(actual);
  blanks.push_back({"unwritten-garbage",
                    "no result but whatever lay there, numbers far too large or too small",
                    [largest](double value) {
                      const double size = std::fabs(value);
                      return !(size <= largest * 0x1p20) || (size > 0 && size < largest * 0x1p-60);
                    },
                    /*with_others=*/true});
  return blanks;
}

}  // namespace

std::vector<Hypothesis> UnwrittenParts(const Problem& problem, const Tensor& actual,
                                       const Tensor& golden) {
  std::vector<Hypothesis> parts;
  const Layout layout(problem);
  for (const Blank& blank : BlanksOf(actual, golden)) {
    const std::optional<Extent> extent = ExtentOf(layout, actual, golden, blank);
    if (!extent || (!blank.may_be_all && extent->count == golden.num_elements())) continue;
    // The elements between are not looked at: they have to be the lesser part, and a run goes to
    // the end.
    const int64_t end = blank.with_others ? golden.num_elements() : extent->end;
    if (!blank.with_others || 2 * extent->count >= extent->BoxSize()) {
      parts.push_back(Unwritten(problem, golden, blank, extent->Box(),
                                [extent = *extent, layout](int64_t position) {
                                  return extent.Holds(layout.IndexOf(position));
                                }));
    }
    if (blank.with_others && 2 * extent->count < end - extent->begin) continue;
    parts.push_back(Unwritten(problem, golden, blank,
                              fmt::format("elements {} to {} in memory", extent->begin, end - 1),
                              [begin = extent->begin, end](int64_t position) {
                                return begin <= position && position < end;
                              }));
  }
  return parts;
}

}  // namespace convgrad
