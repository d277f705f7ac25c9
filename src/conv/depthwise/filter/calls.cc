#include "conv/depthwise/filter/calls.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace convgrad {

template <class Element>
void FilterCallFinder<Element>::FindAll(const FilterUnit& unit, const BlockSpan& span,
                                        SpanCalls<Element>* known) const {
  if (!cut_.input_in_place) FindSlots(unit, span, known);
  if (cut_.output_in_place) {
    known->calls.resize(1);
    return;
  }
  for (int64_t i = span.begin; i < span.end; ++i) FindBlock(unit, cut_.blocks[i], known);
}

template <class Element>
void FilterCallFinder<Element>::FindBlock(const FilterUnit& unit, const PixelBlock& block,
                                          SpanCalls<Element>* known) const {
  const size_t before = known->calls.size();
  for (int64_t part = 0; part < cut_.parts; ++part) {
    const size_t first = known->calls.size();
    for (int64_t row = block.row_begin; row < block.row_end; ++row) {
      FilterCall<Element> call;
      Find(unit, *known, block, block.image_begin, row, part, &call);
      if (call.segments.empty()) continue;
      if (known->calls.size() > first && known->calls.back().Extend(call)) continue;
      known->calls.push_back(std::move(call));
    }
  }
  known->calls_of.push_back(known->calls.size() - before);
}

template <class Element>
bool FilterCall<Element>::Extend(const FilterCall& next) {
  const auto behind = [&](const DepthwiseSegment<Element>& a, const DepthwiseSegment<Element>& b) {
    return b.source - a.source;
  };
  if (segments.size() != next.segments.size()) return false;
  const int64_t source_step = behind(segments[0], next.segments[0]);
  const int64_t output_step = next.rows.out_backprop - rows.out_backprop;
  if (rows.num_rows > 1 && (source_step != rows.num_rows * rows.source_row_step ||
                            output_step != rows.num_rows * rows.out_backprop_row_step)) {
    return false;
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].sums != next.segments[i].sums ||
        behind(segments[i], next.segments[i]) != source_step) {
      return false;
    }
  }
  if (rows.num_rows++ > 1) return true;
  rows.source_row_step = source_step;
  rows.out_backprop_row_step = output_step;
  return true;
}

// Numbers the input rows that the span's outputs read with the unit's taps.
template <class Element>
void FilterCallFinder<Element>::FindSlots(const FilterUnit& unit, const BlockSpan& span,
                                          SpanCalls<Element>* known) const {
  const Range rows = known->place.in_rows;
  const Dimension& d = cut_.rows;
  known->slots.assign(static_cast<size_t>(rows.size()), -1);
  for (int64_t row = span.bounds.row_begin; row < span.bounds.row_end; ++row) {
    for (int64_t tap = unit.row_taps.begin; tap < unit.row_taps.end; ++tap) {
      const int64_t at = row * d.stride + tap * d.dilation - d.pad - rows.begin;
      if (at >= 0 && at < rows.size()) known->slots[at] = 0;
    }
  }
  int64_t num_slots = 0;
  for (int64_t& slot : known->slots) {
    if (slot == 0) slot = num_slots++;
  }
  known->all_rows = num_slots == rows.size();
}

// One row of taps of the unit over one source row, for one part of the outputs.
template <class Element>
void FilterCallFinder<Element>::AddSegments(const FilterUnit& unit, const Element* source,
                                            int64_t row_tap, int64_t origin, int64_t part,
                                            FilterCall<Element>* call) const {
  const Range taps = unit.col_taps;
  const int64_t tap_size = cut_.TapSize(unit.channels.size());
  ComputeType<Element>* const sums = operands_.sums + part * cut_.PartSums(unit.channels.size());
  for (int64_t tap = taps.begin; tap < taps.end;) {
    DepthwiseSegment<Element> segment = {};
    segment.source = source;
    segment.origin = origin + tap * cut_.cols.dilation;
    segment.num_taps = SegmentTaps(taps.end - tap);
    segment.sums =
        sums + ((row_tap - unit.row_taps.begin) * taps.size() + tap - taps.begin) * tap_size;
    call->segments.push_back(segment);
    tap += segment.num_taps;
  }
}

template <class Element>
const Element* FilterCallFinder<Element>::InputRow(const FilterUnit& unit,
                                                   const SpanCalls<Element>& known, int64_t image,
                                                   int64_t row) const {
  if (cut_.input_in_place) {
    return operands_.input + cut_.input.AtPixel(image, row, 0, unit.channels.begin);
  }
  const int64_t pixel = known.slots[row - known.place.in_rows.begin] * known.place.in_cols.size();
  return operands_.input + pixel * cut_.PartSize(unit.channels.size());
}

// Column `col` of a row of out_backprop.
template <class Element>
const Element* FilterCallFinder<Element>::OutputRow(const FilterUnit& unit, const SpanPlace& place,
                                                    int64_t image, int64_t row, int64_t col) const {
  if (cut_.output_in_place) {
    return operands_.out_backprop +
           cut_.output.AtPixel(image, row, col, unit.channels.begin * cut_.multiplier);
  }
  const int64_t pixel =
      (row - place.out_rows.begin) * place.out_cols.size() + col - place.out_cols.begin;
  return operands_.out_backprop + pixel * unit.channels.size() * cut_.multiplier;
}

template <class Element>
void FilterCallFinder<Element>::Find(const FilterUnit& unit, const SpanCalls<Element>& known,
                                     const PixelBlock& block, int64_t image, int64_t row,
                                     int64_t part, FilterCall<Element>* call) const {
  const Dimension& rows = cut_.rows;
  const int64_t size = cut_.PartSize(unit.channels.size());
  const int64_t first_col = cut_.input_in_place ? 0 : known.place.in_cols.begin;
  const Range valid = ValidTaps(row, rows.stride, rows.dilation, rows.pad, rows.kernel, rows.in);
  const int64_t origin = block.col_begin * cut_.cols.stride - cut_.cols.pad - first_col;
  call->segments.clear();
  for (int64_t tap = std::max(valid.begin, unit.row_taps.begin);
       tap < std::min(valid.end, unit.row_taps.end); ++tap) {
    const int64_t in_row = row * rows.stride + tap * rows.dilation - rows.pad;
    AddSegments(unit, InputRow(unit, known, image, in_row), tap, origin, part, call);
    call->last_input = in_row;
  }
  DepthwiseGradientRows<Element>& kernel_rows = call->rows;
  kernel_rows = {};
  kernel_rows.num_rows = 1;
  kernel_rows.segments = call->segments.data();
  kernel_rows.num_segments = std::ssize(call->segments);
  kernel_rows.out_backprop =
      OutputRow(unit, known.place, image, row, block.col_begin) + part * size;
  kernel_rows.out_backprop_stride = cut_.output_in_place ? cut_.output.c : size * cut_.parts;
  kernel_rows.count = block.col_end - block.col_begin;
  kernel_rows.source_stride = cut_.input_in_place ? cut_.input.c : size;
  kernel_rows.num_cols = cut_.input_in_place ? cut_.input.w : known.place.in_cols.size();
  kernel_rows.sums_stride = cut_.TapSize(unit.channels.size());
  kernel_rows.stride = cut_.cols.stride;
  kernel_rows.dilation = cut_.cols.dilation;
  kernel_rows.channels = size;
}

template <class Element>
void FilterCallFinder<Element>::Repeat(int64_t row, int64_t end, FilterCall<Element>* call) const {
  const Dimension& d = cut_.rows;
  const auto taps = [&](int64_t at) {
    return ValidTaps(at, d.stride, d.dilation, d.pad, d.kernel, d.in);
  };
  const Range first = taps(row);
  DepthwiseGradientRows<Element>& rows = call->rows;
  while (row + rows.num_rows < end && taps(row + rows.num_rows) == first) ++rows.num_rows;
  rows.source_row_step = d.stride * cut_.input.w * cut_.input.c;
  rows.out_backprop_row_step = cut_.output.w * cut_.output.c;
}

template struct FilterCall<Float16>;
template struct FilterCall<BFloat16>;
template struct FilterCall<float>;
template struct FilterCall<double>;
template class FilterCallFinder<Float16>;
template class FilterCallFinder<BFloat16>;
template class FilterCallFinder<float>;
template class FilterCallFinder<double>;

}  // namespace convgrad
