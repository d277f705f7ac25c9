#include "conv/axes/lines.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "order/canonical_order.h"
#include "problem/window.h"

namespace convgrad {
namespace {

int64_t NumPhases(const Dimension& d) {
  return d.forward ? 1 : std::min(d.stride, d.in);
}

// Splits a line with dilated taps into lines without: results that are `dilation` sources apart (or
// the nearest multiple of the stride) stay together. `base` is the source position that the first
// result reads with the first tap, `step` from a result to the next, `dilation` from a tap to the
// next.
void SplitDilation(TapLine line, int64_t base, int64_t step, int64_t dilation, Range sources,
                   std::vector<TapLine>* lines) {
  if (line.num_taps <= 1) dilation = 1;
  const int64_t num_parts = dilation / std::gcd(dilation, step);
  const TapLine whole = line;
  for (int64_t part = 0; part < std::min(num_parts, whole.count); ++part) {
    const int64_t first = base + part * step - sources.begin;
    line.origin = FloorDiv(first, dilation);
    const int64_t offset = first - line.origin * dilation;
    line.source_first = sources.begin + offset;
    line.source_step = dilation;
    line.num_sources = offset < sources.size() ? CeilDiv(sources.size() - offset, dilation) : 0;
    line.stride = step * num_parts / dilation;
    line.result_first = whole.result_first + part * whole.result_step;
    line.result_step = whole.result_step * num_parts;
    line.count = CeilDiv(whole.count - part, num_parts);
    lines->push_back(line);
  }
}

}  // namespace

Dimension Dimension::Rows(const ConvGeometry& g, bool forward) {
  return {g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top, forward};
}

Dimension Dimension::Cols(const ConvGeometry& g, bool forward) {
  return {g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left, forward};
}

Range SourcesOf(const Dimension& d, Range results) {
  const int64_t reach = (d.kernel - 1) * d.dilation;
  Range range;
  if (d.forward) {
    range = {results.begin * d.stride - d.pad, (results.end - 1) * d.stride - d.pad + reach + 1};
  } else {
    range = {-FloorDiv(-(results.begin + d.pad - reach), d.stride),
             FloorDiv(results.end - 1 + d.pad, d.stride) + 1};
  }
  range.begin = std::max<int64_t>(range.begin, 0);
  range.end = std::min(range.end, d.num_sources());
  return range.begin < range.end ? range : Range{0, 0};
}

int64_t MostSources(const Dimension& d, int64_t num_results) {
  const int64_t reach = (d.kernel - 1) * d.dilation;
  const int64_t span = d.forward ? (num_results - 1) * d.stride + reach + 1
                                 : (num_results - 1 + reach) / d.stride + 2;
  return std::min(span, d.num_sources());
}

Dimension WithTaps(Dimension d, Range taps) {
  d.kernel = taps.size();
  d.pad -= taps.begin * d.dilation;
  return d;
}

void FindTaps(const Dimension& d, int64_t position, PointTaps* taps) {
  taps->valid.clear();
  if (d.forward) {
    taps->num_taps = d.kernel;
    const Range valid = ValidTaps(position, d.stride, d.dilation, d.pad, d.kernel, d.in);
    for (int64_t tap = valid.begin; tap < valid.end; ++tap) {
      taps->valid.push_back({tap, tap, position * d.stride + tap * d.dilation - d.pad});
    }
    return;
  }
  int64_t index = 0;
  for (int64_t tap = d.kernel - 1; tap >= 0; --tap) {
    const int64_t reach = position + d.pad - tap * d.dilation;
    if (reach % d.stride != 0) continue;
    const int64_t source = reach / d.stride;
    if (source >= 0 && source < d.out) taps->valid.push_back({index, tap, source});
    ++index;
  }
  taps->num_taps = index;
}

int64_t MetTaps(const Dimension& d) {
  return SpatialAxis{d.in, d.out, d.kernel, d.stride, d.dilation, d.pad}.ValidPairs();
}

std::vector<TapLine> LinesOf(const Dimension& d, Range results, Range sources) {
  std::vector<TapLine> lines;
  if (d.forward) {
    TapLine line = {};
    line.result_first = results.begin;
    line.result_step = 1;
    line.count = results.size();
    line.tap_step = 1;
    line.num_taps = d.kernel;
    SplitDilation(line, results.begin * d.stride - d.pad, d.stride, d.dilation, sources, &lines);
    return lines;
  }
  int64_t packed_tap = 0;
  for (int64_t phase = 0; phase < NumPhases(d); ++phase) {
    const std::vector<int64_t> taps = TapsOfPhase(d, phase);
    const int64_t first =
        phase + std::max<int64_t>(0, CeilDiv(results.begin - phase, d.stride)) * d.stride;
    if (first < results.end) {
      TapLine line = {};
      line.result_first = first;
      line.result_step = d.stride;
      line.count = CeilDiv(results.end - first, d.stride);
      line.num_taps = static_cast<int64_t>(taps.size());
      line.tap_first = taps.empty() ? 0 : taps[0];
      line.tap_step = taps.size() < 2 ? 0 : taps[1] - taps[0];
      line.packed_tap = packed_tap;
      const int64_t base = FloorDiv(first + d.pad - line.tap_first * d.dilation, d.stride);
      SplitDilation(line, base, 1, -line.tap_step * d.dilation / d.stride, sources, &lines);
    }
    packed_tap += static_cast<int64_t>(taps.size());
  }
  return lines;
}

std::vector<int64_t> TapsOfPhase(const Dimension& d, int64_t position) {
  if (!d.forward) {
    return PhaseTaps((position + d.pad) % d.stride, d.stride, d.dilation, d.kernel);
  }
  std::vector<int64_t> taps(static_cast<size_t>(d.kernel));
  std::iota(taps.begin(), taps.end(), 0);
  return taps;
}

std::vector<int64_t> PackedTaps(const Dimension& d) {
  std::vector<int64_t> packed;
  for (int64_t phase = 0; phase < NumPhases(d); ++phase) {
    const std::vector<int64_t> taps = TapsOfPhase(d, phase);
    packed.insert(packed.end(), taps.begin(), taps.end());
  }
  return packed;
}

}  // namespace convgrad
