#include "conv/depthwise/filter/calls.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace convgrad {
namespace {

// Groups of a call that its lists have room for from the beginning.
constexpr int64_t kFewGroups = 4;

}  // namespace

int64_t CallBytes(const DepthwiseFilterCut& cut) {
  const int64_t row_taps = CeilDiv(cut.rows.kernel, cut.row_groups);
  const int64_t col_taps = CeilDiv(cut.cols.kernel, cut.col_groups);
  const int64_t block_rows = cut.largest_block.row_end;
  // The first and the last tap on the image move one way from row to row. Lists grow by doubling.
  const auto grown = [](int64_t count) {
    return std::max(kFewGroups, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count))));
  };
  const int64_t met = std::min(block_rows, 2 * row_taps + 1), groups = grown(met);
  const int64_t segments = row_taps * grown(met * CeilDiv(col_taps, kMaxSegmentTaps));
  const int64_t of_call =
      2 * int64_t{sizeof(FilterCall<double>)} +
      segments * int64_t{sizeof(DepthwiseSegment<double>)} +
      groups * int64_t{sizeof(DepthwiseGradientRows<double>) + sizeof(FilterCall<double>::Reads)};
  const int64_t num_blocks = std::ssize(cut.blocks);
  const int64_t of_part = CeilDiv(cut.portions_at_once, cut.portion_parts) * cut.portion_blocks;
  const int64_t of_span = std::min(cut.blocks_of_span, of_part);
  const int64_t spans = cut.blocks_of_image == 1 ? 1 : std::min(kMostKnownSpans, num_blocks);
  const int64_t blocks = std::min(num_blocks, spans * of_span);
  const int64_t rows = cut.input_in_place ? 0 : MostSources(cut.rows, block_rows * of_span);
  const int64_t found = num_blocks > cut.kListedBlocks ? 2 * of_part : 0;
  return found * int64_t{sizeof(BlockSpan)} +
         spans * (2 * int64_t{sizeof(SpanCalls<double>)} + rows * int64_t{sizeof(int64_t)}) +
         blocks * cut.parts * of_call;
}

template <class Element>
void FilterCallFinder<Element>::FindAll(const FilterUnit& unit, const BlockSpan& span,
                                        SpanCalls<Element>* known) const {
  if (!cut_.input_in_place) known->rows = RowsFor(unit, span, known->place.in_rows);
  for (int64_t i = span.begin; i < span.end; ++i) {
    for (int64_t part = 0; part < cut_.parts; ++part) {
      known->calls.push_back(FindCall(unit, *known, cut_.blocks[i], part));
    }
  }
}

template <class Element>
FilterCall<Element> FilterCallFinder<Element>::FindCall(const FilterUnit& unit,
                                                        const SpanCalls<Element>& known,
                                                        const PixelBlock& block,
                                                        int64_t part) const {
  FilterCall<Element> call;
  call.groups.reserve(kFewGroups);
  call.reads.reserve(kFewGroups);
  call.segments.reserve(kFewGroups * static_cast<size_t>(unit.row_taps.size()));
  for (int64_t row = block.row_begin; row < block.row_end;) {
    if (RowTaps(unit, row).size() <= 0) {
      ++row;
      continue;
    }
    AddGroup(unit, known, block, row, part, &call);
    row += call.groups.back().num_rows;
  }
  const DepthwiseSegment<Element>* segments = call.segments.data();
  for (DepthwiseGradientRows<Element>& rows : call.groups) {
    rows.segments = segments;
    segments += rows.num_segments;
  }
  return call;
}

template <class Element>
Range FilterCallFinder<Element>::RowTaps(const FilterUnit& unit, int64_t row) const {
  const Dimension& d = cut_.rows;
  const Range valid = ValidTaps(row, d.stride, d.dilation, d.pad, d.kernel, d.in);
  return {std::max(valid.begin, unit.row_taps.begin), std::min(valid.end, unit.row_taps.end)};
}

// The input rows that the span's outputs read with the unit's taps.
template <class Element>
StripRows FilterCallFinder<Element>::RowsFor(const FilterUnit& unit, const BlockSpan& span,
                                             Range in_rows) const {
  return StripRows(in_rows, [&](const auto& read) {
    for (int64_t row = span.bounds.row_begin; row < span.bounds.row_end; ++row) {
      for (int64_t tap = unit.row_taps.begin; tap < unit.row_taps.end; ++tap) {
        read(InputRowOf(row, tap));
      }
    }
  });
}

// The taps of the unit that one row of outputs meets, for one part of the outputs. Segments that
// are alike are neighbours.
template <class Element>
void FilterCallFinder<Element>::AddSegments(const FilterUnit& unit, const SpanCalls<Element>& known,
                                            int64_t row, int64_t origin, int64_t part,
                                            FilterCall<Element>* call) const {
  const Range row_taps = RowTaps(unit, row), taps = unit.col_taps;
  const int64_t tap_size = cut_.TapSize(unit.channels.size());
  ComputeType<Element>* const sums = operands_.sums + part * cut_.PartSums(unit.channels.size());
  DepthwiseSegment<Element> segment = {};
  for (int64_t tap = taps.begin; tap < taps.end; tap += segment.num_taps) {
    segment.origin = origin + tap * cut_.cols.dilation;
    segment.num_taps = SegmentTaps(taps.end - tap);
    for (int64_t row_tap = row_taps.begin; row_tap < row_taps.end; ++row_tap) {
      segment.source = InputRow(unit, known, known.image, InputRowOf(row, row_tap));
      segment.sums =
          sums + ((row_tap - unit.row_taps.begin) * taps.size() + tap - taps.begin) * tap_size;
      call->segments.push_back(segment);
    }
  }
}

template <class Element>
const Element* FilterCallFinder<Element>::InputRow(const FilterUnit& unit,
                                                   const SpanCalls<Element>& known, int64_t image,
                                                   int64_t row) const {
  if (cut_.input_in_place) {
    return operands_.input + cut_.input.AtPixel(image, row, 0, unit.channels.begin);
  }
  const int64_t pixel = known.rows.SlotOf(row) * known.place.in_cols.size();
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
void FilterCallFinder<Element>::AddGroup(const FilterUnit& unit, const SpanCalls<Element>& known,
                                         const PixelBlock& block, int64_t row, int64_t part,
                                         FilterCall<Element>* call) const {
  const int64_t size = cut_.PartSize(unit.channels.size());
  const int64_t first_col = cut_.input_in_place ? 0 : known.place.in_cols.begin;
  const int64_t origin = block.col_begin * cut_.cols.stride - cut_.cols.pad - first_col;
  const Range taps = RowTaps(unit, row);
  const size_t segments_before = call->segments.size();
  const auto source = [&](int64_t of_row, int64_t tap) {
    return InputRow(unit, known, known.image, InputRowOf(of_row, tap));
  };
  const auto output = [&](int64_t of_row) {
    return OutputRow(unit, known.place, known.image, of_row, block.col_begin) + part * size;
  };
  AddSegments(unit, known, row, origin, part, call);
  DepthwiseGradientRows<Element> rows = {};
  rows.num_segments = std::ssize(call->segments) - static_cast<int64_t>(segments_before);
  rows.out_backprop = output(row);
  rows.out_backprop_stride = cut_.output_in_place ? cut_.output.c : size * cut_.parts;
  rows.count = block.col_end - block.col_begin;
  rows.source_stride = cut_.input_in_place ? cut_.input.c : size;
  rows.num_cols = cut_.input_in_place ? cut_.input.w : known.place.in_cols.size();
  rows.sums_stride = cut_.TapSize(unit.channels.size());
  rows.stride = cut_.cols.stride;
  rows.dilation = cut_.cols.dilation;
  rows.channels = size;
  if (row + 1 < block.row_end && RowTaps(unit, row + 1) == taps) {
    rows.source_row_step = source(row + 1, taps.begin) - source(row, taps.begin);
    rows.out_backprop_row_step = output(row + 1) - output(row);
  }
  // A row belongs to the group if it meets the same taps and all that it reads lies where the steps
  // say: strips leave out rows that nothing reads.
  const auto lies_behind = [&](int64_t next) {
    if (RowTaps(unit, next) != taps) return false;
    for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
      if (source(next, tap) - source(row, tap) != (next - row) * rows.source_row_step) return false;
    }
    return true;
  };
  rows.num_rows = 1;
  while (row + rows.num_rows < block.row_end && lies_behind(row + rows.num_rows)) ++rows.num_rows;
  call->groups.push_back(rows);
  call->reads.push_back({row, InputRowOf(row, taps.end - 1)});
}

template class FilterCallFinder<Float16>;
template class FilterCallFinder<BFloat16>;
template class FilterCallFinder<float>;
template class FilterCallFinder<double>;

}  // namespace convgrad
