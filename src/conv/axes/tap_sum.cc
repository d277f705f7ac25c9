#include "conv/axes/tap_sum.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/checked.h"

namespace convgrad {
namespace {

struct Axis {
  int64_t in, out, kernel, stride, dilation, pad;
};

// Splits the positions where the set of taps on the source changes.
void FindClasses(int64_t source_size, AxisPhase& phase) {
  const auto first_at_least = [&](int64_t offset) {
    return std::lower_bound(phase.offsets.begin(), phase.offsets.end(), offset) -
           phase.offsets.begin();
  };
  for (int64_t p = 0; p < phase.count; ++p) {
    const int64_t source = phase.source_first + p * phase.source_step;
    const int64_t begin = first_at_least(-source);
    const int64_t end = std::max(begin, int64_t{first_at_least(source_size - source)});
    if (!phase.classes.empty()) {
      AxisClass& last = phase.classes.back();
      if (last.tap_begin == begin && last.tap_end == end) {
        ++last.end;
        continue;
      }
    }
    phase.classes.push_back({p, p + 1, begin, end});
  }
}

std::vector<AxisPhase> ForwardPhases(const Axis& axis) {
  AxisPhase phase{0, 1, axis.out, -axis.pad, axis.stride, {}, {}, {}};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    phase.taps.push_back(k);
    phase.offsets.push_back(k * axis.dilation);
  }
  FindClasses(axis.in, phase);
  return {std::move(phase)};
}

// Position p of residue r meets tap k at (p + pad - k * dilation) / stride, a whole number for the
// taps of its phase.
std::vector<AxisPhase> BackpropInputPhases(const Axis& axis) {
  std::vector<AxisPhase> phases;
  for (int64_t residue = 0; residue < std::min(axis.in, axis.stride); ++residue) {
    const int64_t shifted = residue + axis.pad, remainder = shifted % axis.stride;
    AxisPhase phase{residue,
                    axis.stride,
                    CeilDiv(axis.in - residue, axis.stride),
                    shifted / axis.stride,
                    1,
                    PhaseTaps(remainder, axis.stride, axis.dilation, axis.kernel),
                    {},
                    {}};
    for (const int64_t k : phase.taps) {
      phase.offsets.push_back((remainder - k * axis.dilation) / axis.stride);
    }
    FindClasses(axis.out, phase);
    phases.push_back(std::move(phase));
  }
  return phases;
}

}  // namespace

bool TapSum::Describes(const Problem& problem) {
  constexpr int64_t kMostPositions = int64_t{1} << 26;
  constexpr int64_t kMostTaps = int64_t{1} << 20;
  constexpr int64_t kMostPhases = int64_t{1} << 14;
  const ConvGeometry& g = problem.geometry;
  const Direction direction = InfoOf(problem.op).direction;
  if (direction == Direction::kBackpropFilter) return false;
  if (std::max({g.in_h, g.in_w, g.out_h, g.out_w}) > kMostPositions) return false;
  if (std::max(g.kernel_h, g.kernel_w) > kMostTaps || g.kernel_h * g.kernel_w > kMostTaps) {
    return false;
  }
  if (direction == Direction::kForward) return true;
  const int64_t row_phases = std::min(g.in_h, g.stride_h);
  const int64_t col_phases = std::min(g.in_w, g.stride_w);
  return std::max({row_phases, col_phases, row_phases * col_phases}) <= kMostPhases;
}

TapSum::TapSum(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  forward = InfoOf(problem.op).direction == Direction::kForward;
  batch = g.batch;
  groups = g.groups;
  kernel_h = g.kernel_h;
  kernel_w = g.kernel_w;
  const Axis rows{g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top};
  const Axis cols{g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left};
  result_h = forward ? g.out_h : g.in_h;
  result_w = forward ? g.out_w : g.in_w;
  result_c = forward ? g.group_out_c : g.group_in_c;
  source_h = forward ? g.in_h : g.out_h;
  source_w = forward ? g.in_w : g.out_w;
  source_c = forward ? g.group_in_c : g.group_out_c;
  in_pairs = TermsInPairs(problem) && source_c > 1;
  row_phases = forward ? ForwardPhases(rows) : BackpropInputPhases(rows);
  col_phases = forward ? ForwardPhases(cols) : BackpropInputPhases(cols);
}

std::vector<TapPhase> PhasesOf(const TapSum& sum) {
  std::vector<TapPhase> phases;
  int64_t terms = 0;
  for (const AxisPhase& rows : sum.row_phases) {
    for (const AxisPhase& cols : sum.col_phases) {
      TapPhase phase{&rows, &cols, {}, terms, sum.in_pairs};
      phase.blocks = TapBlocks(phase.num_taps(), sum.source_c, sum.in_pairs);
      terms += phase.num_taps() * sum.source_c;
      phases.push_back(std::move(phase));
    }
  }
  return phases;
}

int64_t TermsOf(const TapSum& sum, const std::vector<TapPhase>& phases) {
  return phases.back().first_term + phases.back().num_taps() * sum.source_c;
}

std::vector<TapPhase> PhasesInPairs(TapSum& sum) {
  std::vector<TapPhase> phases = PhasesOf(sum);
  sum.source_c = CeilDiv(sum.source_c, int64_t{2});
  sum.in_pairs = false;
  int64_t terms = 0;
  for (TapPhase& phase : phases) {
    for (TapBlock& block : phase.blocks) {
      block.channel_begin /= 2;  // even: blocks don't part pairs
      block.channel_end = CeilDiv(block.channel_end, int64_t{2});
    }
    phase.first_term = terms;
    phase.in_pairs = false;
    terms += phase.num_taps() * sum.source_c;
  }
  return phases;
}

AxisReach::AxisReach(const std::vector<AxisPhase>& phases)
    : step(phases.front().source_step),
      low(std::numeric_limits<int64_t>::max()),
      high(std::numeric_limits<int64_t>::min()) {
  for (const AxisPhase& phase : phases) {
    if (phase.offsets.empty()) continue;
    low = std::min(low, phase.source_first + phase.offsets.front());
    high = std::max(high, phase.source_first + phase.offsets.back());
  }
  if (low > high) low = high = 0;  // no taps at all
}

bool MeetsPadding(const TapSum& sum) {
  const auto meets = [](const AxisPhase& phase) {
    return std::ranges::any_of(phase.classes, [&](const AxisClass& c) {
      return c.tap_end - c.tap_begin < std::ssize(phase.taps);
    });
  };
  return std::ranges::any_of(sum.row_phases, meets) || std::ranges::any_of(sum.col_phases, meets);
}

Range IndicesWithin(const AxisPhase& phase, int64_t begin, int64_t end) {
  const auto index = [&](int64_t position) {
    return position <= phase.first
               ? 0
               : std::min(phase.count, CeilDiv(position - phase.first, phase.step));
  };
  return {index(begin), index(end)};
}

Range SourceRows(const TapSum& sum, const Slab& slab) {
  Range rows{sum.source_h, 0};
  for (const AxisPhase& phase : sum.row_phases) {
    const Range within = IndicesWithin(phase, slab.row_begin, slab.row_end);
    for (const AxisClass& c : phase.classes) {
      const int64_t begin = std::max(c.begin, within.begin), end = std::min(c.end, within.end);
      if (begin >= end || c.tap_begin == c.tap_end) continue;
      const auto source = [&](int64_t p, int64_t tap) {
        return phase.source_first + p * phase.source_step + phase.offsets[static_cast<size_t>(tap)];
      };
      rows.begin = std::min(rows.begin, source(begin, c.tap_begin));
      rows.end = std::max(rows.end, source(end - 1, c.tap_end - 1) + 1);
    }
  }
  return rows.begin < rows.end ? rows : Range{0, 0};
}

}  // namespace convgrad
