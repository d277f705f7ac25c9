#include "conv/depthwise/data/direct_calls.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/checked.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Bytes of a list that has grown to `count` elements, by doubling, and of what is kept with it.
template <class T>
int64_t ListBytes(int64_t count) {
  constexpr int64_t kBeside = 16;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)) * sizeof(T)) + kBeside;
}

}  // namespace

int64_t CallBytes(const DepthwiseDataCut& cut) {
  if (cut.all_rows) return 0;
  const int64_t terms = cut.tap_terms(), row_taps = cut.SourceRows(1);
  int64_t of_row = 0;
  for (const ColPart& part : cut.cols_of) {
    int64_t bytes = sizeof(RowCalls<double>);
    for (const TapLine& line : part.lines) {
      const int64_t taps = std::max<int64_t>(1, cut.rows.kernel * line.num_taps);
      const int64_t blocks =
          CeilDiv(taps, std::max<int64_t>(1, kBlockTerms / terms)) * CeilDiv(terms, kBlockTerms);
      // A block's end may cut a segment in two.
      const int64_t segments = row_taps * cut.RowSegments(part, line) + blocks - 1;
      bytes += int64_t{sizeof(LineCall<double>)} + ListBytes<DepthwiseSegment<double>>(segments) +
               ListBytes<int64_t>(blocks);
    }
    of_row = std::max(of_row, bytes);
  }
  if (cut.source_in_place) return cut.RowsApart() * of_row;
  const int64_t rows = CeilDiv(cut.rows.num_results(), cut.row_parts);
  return rows * of_row + MostSources(cut.rows, rows) * int64_t{sizeof(int64_t)};
}

template <class Element>
RowCallFinder<Element>::RowCallFinder(const DepthwiseDataCut& cut, const RowPlace<Element>& place)
    : cut_(cut), place_(place), taps_of_row_(std::ssize(cut.packed_taps)) {}

template <class Element>
const Element* RowCallFinder<Element>::SourceRow(int64_t row) const {
  if (place_.last_row != nullptr && row + 1 == cut_.rows.num_sources()) return place_.last_row;
  const bool has_strip = place_.rows.rows().size() > 0;
  return place_.source + (has_strip ? place_.rows.SlotOf(row) : row) * place_.row_size;
}

// The weights of term `term` (taps of the line, terms inside) of one row of the filter.
template <class Element>
const Element* RowCallFinder<Element>::Weights(const TapLine& line, int64_t row_tap,
                                               int64_t term) const {
  if (cut_.source_in_place) {
    const int64_t tap = line.tap_first + term * line.tap_step;
    return place_.filter + (row_tap * cut_.cols.kernel + tap) * cut_.result.c;
  }
  const int64_t at = (row_tap * taps_of_row_ + line.packed_tap) * cut_.tap_terms() + term;
  return place_.filter + at * cut_.ResultSize(place_.channels);
}

// Terms [begin, end) of one row of the filter as segments.
template <class Element>
void RowCallFinder<Element>::AddSegments(const TapLine& line, const PointTap& tap, int64_t begin,
                                         int64_t end, LineCall<Element>* call) const {
  const int64_t terms = cut_.tap_terms();
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
void RowCallFinder<Element>::FindSegments(const TapLine& line, LineCall<Element>* call) const {
  const int64_t terms = cut_.tap_terms(), row_terms = line.num_taps * terms;
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
void RowCallFinder<Element>::FindLine(const TapLine& line, LineCall<Element>* call) const {
  FindSegments(line, call);
  const int64_t terms = cut_.tap_terms(), size = cut_.ResultSize(place_.channels);
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
  row.filter_stride = cut_.source_in_place ? line.tap_step * cut_.result.c : size;
  row.channels = size;
  row.round_to_odd = cut_.stored_bytes < cut_.element_bytes;
  row.out_stride = line.result_step * place_.result_pixel_size;
  call->first_out = line.result_first - place_.cols->results.begin;
}

// The first row of the source that the current row reads, if the others lie behind it as they do
// for every row of the same taps.
template <class Element>
const Element* RowCallFinder<Element>::FirstRow() const {
  if (place_.rows.rows().size() > 0 || taps_.valid.empty()) return nullptr;
  const int64_t last = std::max(taps_.valid.front().source, taps_.valid.back().source);
  const bool apart = place_.last_row != nullptr && last + 1 == cut_.rows.num_sources();
  return apart ? nullptr : SourceRow(taps_.valid.front().source);
}

// True if calls were found for the current row's taps, which the first one and their number tell:
// from one to the next is as far in all rows.
template <class Element>
bool RowCallFinder<Element>::HasSameTaps(const RowCalls<Element>& calls) const {
  return calls.cols == place_.cols && calls.channels == place_.channels &&
         calls.first_tap == taps_.valid.front().tap && calls.num_taps == std::ssize(taps_.valid);
}

template <class Element>
void RowCallFinder<Element>::Move(const Element* first_row, RowCalls<Element>* calls) const {
  const int64_t by = first_row - calls->first_row, filter_by = place_.filter - calls->filter;
  for (LineCall<Element>& line : calls->lines) {
    for (DepthwiseSegment<Element>& segment : line.segments) {
      segment.source += by;
      segment.filter += filter_by;
    }
  }
}

template <class Element>
void RowCallFinder<Element>::Find(int64_t row, RowCalls<Element>* calls) {
  FindTaps(cut_.rows, row, &taps_);
  calls->sources_end = 0;
  for (const PointTap& tap : taps_.valid) {
    calls->sources_end = std::max(calls->sources_end, tap.source + 1);
  }
  const Element* const first_row = FirstRow();
  if (calls->first_row != nullptr && first_row != nullptr && HasSameTaps(*calls)) {
    Move(first_row, calls);
  } else {
    calls->lines.resize(place_.cols->lines.size());
    for (size_t i = 0; i < calls->lines.size(); ++i) {
      FindLine(place_.cols->lines[i], &calls->lines[i]);
    }
    calls->cols = place_.cols;
    calls->channels = place_.channels;
    calls->first_tap = taps_.valid.empty() ? 0 : taps_.valid.front().tap;
    calls->num_taps = std::ssize(taps_.valid);
  }
  calls->first_row = first_row;
  calls->filter = place_.filter;
}

template class RowCallFinder<Float16>;
template class RowCallFinder<BFloat16>;
template class RowCallFinder<float>;
template class RowCallFinder<double>;

}  // namespace convgrad
