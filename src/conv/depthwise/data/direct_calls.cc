#include "conv/depthwise/data/direct_calls.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "order/canonical_order.h"

namespace convgrad {

namespace {

// The terms of dilated taps lie at equal distances only where the columns between them lie
// elsewhere. Planes are transposed by the row, and one term a tap needs nothing of the kind.
int64_t ResiduesOf(const ForwardPlan& plan, const std::vector<TapLine>& lines) {
  if (plan.by_plane || plan.tap_terms() == 1 || lines.empty()) return 1;
  const int64_t step = lines[0].source_step;
  const bool alike = std::all_of(lines.begin(), lines.end(),
                                 [&](const TapLine& line) { return line.source_step == step; });
  return alike ? step : 1;
}

}  // namespace

int64_t ColBand::PlaceOf(int64_t offset) const {
  if (residues == 1) return offset;
  int64_t place = 0;
  for (int64_t i = 0; i < std::min(offset, sources.size()); ++i) {
    place += CeilDiv(sources.size() - i, residues);
  }
  return place;
}

std::vector<ColBand> ColBandsOf(const ForwardPlan& plan) {
  std::vector<ColBand> bands;
  for (int64_t band = 0; band < plan.col_bands; ++band) {
    const Range results = PartOf(plan.cols.num_results(), plan.col_bands, band);
    const Range sources =
        plan.source_in_place ? Range{0, plan.cols.num_sources()} : SourcesOf(plan.cols, results);
    std::vector<TapLine> lines = LinesOf(plan.cols, results, sources);
    const int64_t residues = ResiduesOf(plan, lines);
    bands.push_back({results, sources, std::move(lines), residues});
  }
  return bands;
}

template <class Element>
ForwardCallFinder<Element>::ForwardCallFinder(const ForwardPlan& plan,
                                              const ForwardPlace<Element>& place)
    : plan_(plan),
      place_(place),
      taps_of_row_(static_cast<int64_t>(PackedTaps(plan.cols).size())) {}

template <class Element>
const Element* ForwardCallFinder<Element>::SourceRow(int64_t row) const {
  const int64_t i = row - place_.first_row;
  return place_.source + (place_.slots.empty() ? i : place_.slots[i]) * place_.row_size;
}

// The weights of term `term` (taps of the line, terms inside) of one row of the filter.
template <class Element>
const Element* ForwardCallFinder<Element>::Weights(const TapLine& line, int64_t row_tap,
                                                   int64_t term) const {
  if (plan_.source_in_place) {
    const int64_t tap = line.tap_first + term * line.tap_step;
    return place_.filter + (row_tap * plan_.cols.kernel + tap) * plan_.result.c;
  }
  const int64_t at = (row_tap * taps_of_row_ + line.packed_tap) * plan_.tap_terms() + term;
  return place_.filter + at * plan_.ResultSize(place_.channels);
}

// Terms [begin, end) of one row of the filter as segments.
template <class Element>
void ForwardCallFinder<Element>::AddSegments(const TapLine& line, const PointTap& tap,
                                             int64_t begin, int64_t end,
                                             LineCall<Element>* call) const {
  const int64_t terms = plan_.tap_terms();
  const Element* row = SourceRow(tap.source);
  const int64_t offset = line.source_first - place_.cols->sources.begin;
  const bool even = EvenTerms(line);
  for (int64_t term = begin; term < end;) {
    DepthwiseSegment<Element> segment = {};
    int64_t last = end;
    if (even) {
      segment.source = row + place_.cols->PlaceOf(offset) * place_.pixel_size;
      segment.origin = line.origin * terms + term;
    } else {
      segment.source = row;
      segment.origin =
          (offset + (line.origin + term / terms) * line.source_step) * terms + term % terms;
      last = std::min(end, RoundUp(term + 1, terms));
    }
    segment.num_taps = SegmentTaps(last - term);
    segment.filter = Weights(line, tap.tap, term);
    call->segments.push_back(segment);
    term += segment.num_taps;
  }
}

// The segments and blocks of one line of the row whose taps are taps_.
template <class Element>
void ForwardCallFinder<Element>::FindSegments(const TapLine& line, LineCall<Element>* call) const {
  const int64_t terms = plan_.tap_terms(), row_terms = line.num_taps * terms;
  call->segments.clear();
  call->block_ends.clear();
  const auto add_block = [&](int64_t begin, int64_t end) {
    for (const PointTap& tap : taps_.valid) {
      const int64_t first = tap.index * row_terms;
      const int64_t from = std::max(begin - first, int64_t{0});
      const int64_t to = std::min(end - first, row_terms);
      if (from < to) AddSegments(line, tap, from, to, call);
    }
    call->block_ends.push_back(static_cast<int64_t>(call->segments.size()));
  };
  const int64_t num_taps = taps_.num_taps * line.num_taps;
  if (num_taps * terms <= kBlockTerms) return add_block(0, num_taps * terms);
  for (const TapBlock& block : TapBlocks(num_taps, terms)) {
    add_block(block.tap_begin * terms + block.channel_begin,
              (block.tap_end - 1) * terms + block.channel_end);
  }
}

template <class Element>
void ForwardCallFinder<Element>::FindLine(const TapLine& line, LineCall<Element>* call) const {
  FindSegments(line, call);
  const int64_t terms = plan_.tap_terms(), size = plan_.ResultSize(place_.channels);
  const bool even = EvenTerms(line);
  DepthwiseForwardRow<Element>& row = call->row;
  row = {};
  row.segments = call->segments.data();
  row.block_ends = call->block_ends.data();
  row.num_blocks = static_cast<int64_t>(call->block_ends.size());
  row.count = line.count;
  row.source_stride = terms > 1 ? place_.channels : line.source_step * place_.pixel_size;
  row.num_cols = (even ? line.num_sources : place_.cols->sources.size()) * terms;
  row.stride = line.stride * terms * (even ? 1 : line.source_step);
  row.filter_stride = plan_.source_in_place ? line.tap_step * plan_.result.c : size;
  row.channels = size;
  row.round_to_odd = plan_.stored_bytes < plan_.element_bytes;
  row.out_stride = line.result_step * place_.result_pixel_size;
  call->first_out = line.result_first - place_.cols->results.begin;
}

template <class Element>
void ForwardCallFinder<Element>::Find(int64_t row, RowCalls<Element>* calls) {
  FindTaps(plan_.rows, row, &taps_);
  calls->lines.resize(place_.cols->lines.size());
  calls->sources_end = 0;
  for (const PointTap& tap : taps_.valid) {
    calls->sources_end = std::max(calls->sources_end, tap.source + 1);
  }
  for (size_t i = 0; i < calls->lines.size(); ++i) {
    FindLine(place_.cols->lines[i], &calls->lines[i]);
  }
}

template class ForwardCallFinder<Float16>;
template class ForwardCallFinder<BFloat16>;
template class ForwardCallFinder<float>;
template class ForwardCallFinder<double>;

}  // namespace convgrad
