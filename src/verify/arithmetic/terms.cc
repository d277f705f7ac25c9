#include "verify/arithmetic/terms.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace convgrad {
namespace {

// The walk's bfloat16 terms stand in pairs, those of other types don't.
Problem InPlainOrder(Problem problem) {
  problem.dtype = DType::kFloat32;
  return problem;
}

std::array<int64_t, 3> ExtentsOf(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  switch (InfoOf(problem.op).direction) {
    case Direction::kForward: return {g.kernel_h, g.kernel_w, g.group_in_c};
    case Direction::kBackpropInput: return {g.kernel_h, g.kernel_w, g.group_out_c};
    case Direction::kBackpropFilter: break;
  }
  return {g.batch, g.out_h, g.out_w};
}

}  // namespace

// Puts each term where its loops find it.
template <class Stored, bool kMeasured>
class TermSource::Gatherer {
 public:
  Gatherer(const TermSource& source, Terms& terms)
      : source_(source),
        terms_(terms),
        first_(source.first_.data<Stored>()),
        second_(source.second_.data<Stored>()) {}

  void Term(int64_t first, int64_t second) {
    const auto place = static_cast<size_t>(PlaceOf(first, second));
    const double x = Widen(first_[first]), y = Widen(second_[second]);
    terms_.x[place] = x;
    terms_.y[place] = y;
    terms_.exists[place] = 1;
    ++terms_.count;
    if constexpr (!kMeasured) return;
    const long double product = static_cast<long double>(x) * y;
    sum_ += product;
    squares_ += static_cast<double>(product * product);
    terms_.magnitude += std::fabs(static_cast<double>(product));
  }
  void EndBlock() {}
  void EndRun() {}

  void Finish() {
    terms_.exact = static_cast<double>(sum_);
    terms_.norm = std::sqrt(squares_);
  }

 private:
  int64_t PlaceOf(int64_t first, int64_t second) const {
    const ConvGeometry& g = source_.problem_.geometry;
    const auto& extents = source_.extents_;
    if (source_.direction_ == Direction::kBackpropFilter) {
      const int64_t pixels = g.out_h * g.out_w;
      if (source_.problem_.data_format == DataFormat::kNHWC) return second / g.out_c;
      return second / (pixels * g.out_c) * pixels + second % pixels;
    }
    const bool is_forward = source_.direction_ == Direction::kForward;
    const int64_t in_filter = is_forward ? second : first;
    const int64_t tap = in_filter / g.out_c / g.group_in_c;
    const int64_t channel =
        is_forward ? in_filter / g.out_c % g.group_in_c : in_filter % g.out_c % g.group_out_c;
    return tap * extents[2] + channel;
  }

  const TermSource& source_;
  Terms& terms_;
  const Stored* first_;
  const Stored* second_;
  long double sum_ = 0;
  double squares_ = 0;
};

TermSource::TermSource(const Problem& problem, const Tensor& first, const Tensor& second)
    : problem_(problem),
      first_(first),
      second_(second),
      direction_(InfoOf(problem.op).direction),
      extents_(ExtentsOf(problem)),
      walk_(InPlainOrder(problem)) {}

Terms TermSource::Of(int64_t element, bool measured) const {
  Terms terms;
  terms.extents = extents_;
  const auto places = static_cast<size_t>(num_places());
  terms.x.resize(places);
  terms.y.resize(places);
  terms.exists.resize(places);
  VisitFloat(problem_.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const auto gather = [&](auto gatherer) {
      walk_.Visit(element, gatherer);
      gatherer.Finish();
    };
    if (measured) {
      gather(Gatherer<Stored, true>(*this, terms));
    } else {
      gather(Gatherer<Stored, false>(*this, terms));
    }
  });
  return terms;
}

std::vector<LoopOrder> TermSource::Orders() const {
  std::vector<LoopOrder> orders;
  std::vector<std::vector<uint8_t>> seen;  // axes of more than one turn
  const auto add = [&](std::array<uint8_t, 3> axes) {
    std::vector<uint8_t> longer;
    for (const uint8_t axis : axes) {
      if (extents_[axis] > 1) longer.push_back(axis);
    }
    if (std::find(seen.begin(), seen.end(), longer) != seen.end()) return;
    seen.push_back(std::move(longer));
    orders.push_back({axes, false, 0});
  };
  for (const std::array<uint8_t, 3> axes :
       {std::array<uint8_t, 3>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}}) {
    add(axes);
  }
  if (is_filter_gradient()) return orders;
  for (const int64_t block : {4, 8, 16, 32, 64}) {
    if (extents_[2] > block && extents_[0] * extents_[1] > 1) {
      orders.push_back({{2, 0, 1}, false, block});
    }
  }
  if (direction_ == Direction::kBackpropInput && extents_[0] * extents_[1] > 1) {
    const size_t forwards = orders.size();
    for (size_t i = 0; i < forwards; ++i) {
      orders.push_back(orders[i]);
      orders.back().taps_backwards = true;
    }
  }
  return orders;
}

bool TermSource::HasPadding() const {
  const ConvGeometry& g = problem_.geometry;
  if (direction_ == Direction::kBackpropInput && (g.stride_h > 1 || g.stride_w > 1)) return false;
  const bool has_pads = g.pad_top > 0 || g.pad_bottom > 0 || g.pad_left > 0 || g.pad_right > 0;
  return has_pads || (direction_ == Direction::kBackpropInput && extents_[0] * extents_[1] > 1);
}

namespace {

// The turns of one loop: every so many places, so many times.
struct Loop {
  int64_t turns, step;
  bool backwards;
};

class Arranging {
 public:
  Arranging(const Terms& terms, const Sequence& sequence) : terms_(terms), sequence_(sequence) {}

  Arranged Run() {
    const auto most = static_cast<size_t>(
        sequence_.with_padding ? static_cast<int64_t>(terms_.x.size()) : terms_.count);
    arranged_.x.reserve(most);
    arranged_.y.reserve(most);
    const LoopOrder& order = sequence_.order;
    if (order.channel_block == 0) {
      Nest(LoopOf(order.axes[0]), LoopOf(order.axes[1]), LoopOf(order.axes[2]), 0);
    } else {
      const int64_t channels = terms_.extents[2], block = order.channel_block;
      for (int64_t begin = 0; begin < channels; begin += block) {
        Begin(arranged_.outer);
        Nest(LoopOf(0), LoopOf(1), {std::min(block, channels - begin), 1, false}, begin);
      }
    }
    if (sequence_.reversed) Reverse();
    return std::move(arranged_);
  }

 private:
  Loop LoopOf(size_t axis) const {
    const auto& e = terms_.extents;
    const int64_t step = axis == 0 ? e[1] * e[2] : axis == 1 ? e[2] : 1;
    return {e[axis], step, sequence_.order.taps_backwards && axis < 2};
  }
  void Begin(std::vector<int64_t>& begins) const {
    if (begins.empty() || begins.back() != arranged_.size()) begins.push_back(arranged_.size());
  }

  void Nest(const Loop& a, const Loop& b, const Loop& c, int64_t base) {
    const auto at = [](const Loop& loop, int64_t turn) {
      return (loop.backwards ? loop.turns - 1 - turn : turn) * loop.step;
    };
    for (int64_t i = 0; i < a.turns; ++i) {
      if (sequence_.order.channel_block == 0) Begin(arranged_.outer);
      for (int64_t j = 0; j < b.turns; ++j) {
        Begin(arranged_.outer_two);
        AddRun(base + at(a, i) + at(b, j) + at(c, 0), c.backwards ? -c.step : c.step, c.turns);
      }
    }
  }
  // `turns` places from `place` on, so far apart.
  void AddRun(int64_t place, int64_t step, int64_t turns) {
    const bool are_given = sequence_.operands == Format::kFloat64;
    for (int64_t turn = 0; turn < turns; ++turn, place += step) {
      const auto p = static_cast<size_t>(place);
      if (terms_.exists[p] == 0 && !sequence_.with_padding) continue;
      const double x = terms_.x[p], y = terms_.y[p];
      arranged_.x.push_back(are_given ? x : Round(sequence_.operands, x));
      arranged_.y.push_back(are_given ? y : Round(sequence_.operands, y));
    }
  }

  void Reverse() {
    std::reverse(arranged_.x.begin(), arranged_.x.end());
    std::reverse(arranged_.y.begin(), arranged_.y.end());
    for (std::vector<int64_t>* begins : {&arranged_.outer, &arranged_.outer_two}) {
      for (int64_t& begin : *begins) begin = arranged_.size() - begin;
      std::reverse(begins->begin(), begins->end());
      begins->insert(begins->begin(), 0);
      begins->pop_back();
    }
  }

  const Terms& terms_;
  const Sequence& sequence_;
  Arranged arranged_;
};

}  // namespace

Arranged Arrange(const Terms& terms, const Sequence& sequence) {
  return Arranging(terms, sequence).Run();
}

}  // namespace convgrad
