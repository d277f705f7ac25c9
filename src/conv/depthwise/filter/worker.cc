#include "conv/depthwise/filter/piece.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace convgrad {
namespace {

// Bands whose calls are kept; tall images have more.
constexpr size_t kMostKnownBands = 64;

StripForm InputForm(const FilterPlan& plan) {
  return plan.multiplier == plan.parts ? StripForm::kPlain : StripForm::kRepeated;
}

StripForm OutputForm(const FilterPlan& plan) {
  return plan.parts == 1 ? StripForm::kPlain : StripForm::kParted;
}

bool ByPlane(const FilterPlan& plan) {
  return plan.input.format == DataFormat::kNCHW;
}

// The part moved to an image.
StripPart InImage(StripPart part, const DataLayout& layout, int64_t image) {
  part.image = image;
  if (layout.format == DataFormat::kNCHW) {
    part.channels = {image * layout.c + part.channels.begin, image * layout.c + part.channels.end};
  }
  return part;
}

// The lines of a part, whole rows of it.
template <class Stored>
LinesAhead::Part LinesOf(const Stored* data, const DataLayout& layout, StripPart part) {
  part.cols.begin = 0;
  const int64_t channels = part.channels.size(), pixels = part.rows.size() * layout.w;
  const bool nchw = layout.format == DataFormat::kNCHW;
  int64_t num_runs = nchw ? channels : pixels, size = nchw ? pixels : channels;
  const int64_t distance = nchw ? layout.plane() : layout.c;
  if (size == distance) size *= std::exchange(num_runs, 1);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Stored));
  const bool aligned = num_runs == 1 || distance * kBytes % LinesAhead::kLineBytes == 0;
  return {reinterpret_cast<uintptr_t>(data + FirstElement(layout, part)), num_runs,
          CeilDiv(size * kBytes, LinesAhead::kLineBytes) + (aligned ? 0 : 1), distance * kBytes};
}

}  // namespace

template <class Stored, class Element>
FilterPiece<Stored, Element>::FilterPiece(const FilterPlan& plan, const KernelTable& kernels,
                                          const Stored* input, const Stored* out_backprop)
    : plan_(plan),
      kernels_(kernels.Depthwise<Compute>()),
      row_kernels_(kernels.DepthwiseRows<Element>()),
      input_packer_(kernels, plan.input, ByPlane(plan), InputForm(plan), plan.multiplier),
      output_packer_(kernels, plan.output, ByPlane(plan), OutputForm(plan), plan.parts),
      input_(input),
      out_backprop_(out_backprop),
      memory_(plan.piece_bytes()) {
  // Lanes beyond the channels are read.
  std::memset(memory_.data(), 0, static_cast<size_t>(memory_.size()));
  sums_ = reinterpret_cast<Compute*>(memory_.data());
  input_strip_.data = sums_ + plan.UnitSize();
  output_strip_.data = input_strip_.data + plan.input_size;
  intermediate_ = output_strip_.data + plan.output_size;
}

// Finds where the band's strips are and what follows them.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::StartBand(const Band& band, const FilterUnit& next_unit,
                                             const Band& next) {
  input_strip_.part = plan_.InputPart(unit_, band.bounds);
  output_strip_.part = plan_.OutputPart(unit_.channels, band.bounds);
  input_strip_.next = plan_.InputPart(next_unit, next.bounds);
  output_strip_.next = plan_.OutputPart(next_unit.channels, next.bounds);
  FindBand(band);
}

// The calls of a band, unless they are known.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::FindBand(const Band& band) {
  const int64_t first_block = band.begin % plan_.blocks_of_image;
  const int64_t num_blocks = band.end - band.begin;
  for (KnownBand& known : known_bands_) {
    band_ = &known;
    if (known.first_block == first_block && known.num_blocks == num_blocks) return;
  }
  if (known_bands_.size() == kMostKnownBands) known_bands_.clear();
  known_bands_.push_back({first_block, num_blocks, {}, true, {}, {}});
  band_ = &known_bands_.back();
  if (!plan_.input_in_place) FindSlots(band.bounds, band_);
  if (plan_.output_in_place) {
    band_->calls.resize(1);
    return;
  }
  for (int64_t i = band.begin; i < band.end; ++i) FindCalls(plan_.blocks[i], band_);
}

template <class Stored, class Element>
void FilterPiece<Stored, Element>::FindCalls(const PixelBlock& block, KnownBand* known) const {
  const size_t before = known->calls.size();
  for (int64_t part = 0; part < plan_.parts; ++part) {
    const size_t first = known->calls.size();
    for (int64_t row = block.row_begin; row < block.row_end; ++row) {
      RowsCall call;
      FindCall(block, block.image_begin, row, part, &call);
      if (call.segments.empty()) continue;
      if (known->calls.size() > first && known->calls.back().Extend(call)) continue;
      known->calls.push_back(std::move(call));
    }
  }
  known->calls_of.push_back(known->calls.size() - before);
}

// Adds the row of `next` if it lies behind the others as they lie behind each other.
template <class Stored, class Element>
bool FilterPiece<Stored, Element>::RowsCall::Extend(const RowsCall& next) {
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

// Numbers the input rows that the band's outputs read with the unit's taps.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::FindSlots(const PixelBlock& bounds, KnownBand* known) const {
  const Range rows = input_strip_.part.rows;
  const Dimension& d = plan_.rows;
  known->slots.assign(static_cast<size_t>(rows.size()), -1);
  for (int64_t row = bounds.row_begin; row < bounds.row_end; ++row) {
    for (int64_t tap = unit_.row_taps.begin; tap < unit_.row_taps.end; ++tap) {
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
template <class Stored, class Element>
void FilterPiece<Stored, Element>::AddSegments(const Element* source, int64_t row_tap,
                                               int64_t origin, int64_t part, RowsCall* call) const {
  const Range taps = unit_.col_taps;
  const int64_t tap_size = plan_.TapSize(unit_.channels.size());
  Compute* const sums = sums_ + part * plan_.PartSums(unit_.channels.size());
  for (int64_t tap = taps.begin; tap < taps.end;) {
    DepthwiseSegment<Element> segment = {};
    segment.source = source;
    segment.origin = origin + tap * plan_.cols.dilation;
    segment.num_taps = SegmentTaps(taps.end - tap);
    segment.sums =
        sums + ((row_tap - unit_.row_taps.begin) * taps.size() + tap - taps.begin) * tap_size;
    call->segments.push_back(segment);
    tap += segment.num_taps;
  }
}

// The first column that the strip, or the image, has of an input row.
template <class Stored, class Element>
auto FilterPiece<Stored, Element>::InputRow(int64_t image, int64_t row) const -> const Element* {
  const Range channels = unit_.channels;
  if (plan_.input_in_place) {
    return reinterpret_cast<const Element*>(input_) +
           plan_.input.AtPixel(image, row, 0, channels.begin);
  }
  const StripPart& part = input_strip_.part;
  const int64_t pixel = band_->slots[row - part.rows.begin] * part.cols.size();
  return reinterpret_cast<const Element*>(input_strip_.data) +
         pixel * plan_.PartSize(channels.size());
}

// Column `col` of a row of out_backprop.
template <class Stored, class Element>
auto FilterPiece<Stored, Element>::OutputRow(int64_t image, int64_t row, int64_t col) const
    -> const Element* {
  const StripPart& part = output_strip_.part;
  if (plan_.output_in_place) {
    return reinterpret_cast<const Element*>(out_backprop_) +
           plan_.output.AtPixel(image, row, col, part.channels.begin);
  }
  const int64_t pixel = (row - part.rows.begin) * part.cols.size() + col - part.cols.begin;
  return reinterpret_cast<const Element*>(output_strip_.data) + pixel * part.channels.size();
}

template <class Stored, class Element>
void FilterPiece<Stored, Element>::FindCall(const PixelBlock& block, int64_t image, int64_t row,
                                            int64_t part, RowsCall* call) const {
  const Dimension& rows = plan_.rows;
  const int64_t size = plan_.PartSize(unit_.channels.size());
  const int64_t first_col = plan_.input_in_place ? 0 : input_strip_.part.cols.begin;
  const TapRange valid = ValidTaps(row, rows.stride, rows.dilation, rows.pad, rows.kernel, rows.in);
  const int64_t origin = block.col_begin * plan_.cols.stride - plan_.cols.pad - first_col;
  call->segments.clear();
  for (int64_t tap = std::max(valid.first, unit_.row_taps.begin);
       tap < std::min(valid.last, unit_.row_taps.end); ++tap) {
    const int64_t in_row = row * rows.stride + tap * rows.dilation - rows.pad;
    AddSegments(InputRow(image, in_row), tap, origin, part, call);
    call->last_input = in_row;
  }
  DepthwiseGradientRows<Element>& kernel_rows = call->rows;
  kernel_rows = {};
  kernel_rows.num_rows = 1;
  kernel_rows.segments = call->segments.data();
  kernel_rows.num_segments = std::ssize(call->segments);
  kernel_rows.out_backprop = OutputRow(image, row, block.col_begin) + part * size;
  kernel_rows.out_backprop_stride = plan_.output_in_place ? plan_.output.c : size * plan_.parts;
  kernel_rows.count = block.col_end - block.col_begin;
  kernel_rows.source_stride = plan_.input_in_place ? plan_.input.c : size;
  kernel_rows.num_cols = plan_.input_in_place ? plan_.input.w : input_strip_.part.cols.size();
  kernel_rows.sums_stride = plan_.TapSize(unit_.channels.size());
  kernel_rows.stride = plan_.cols.stride;
  kernel_rows.dilation = plan_.cols.dilation;
  kernel_rows.channels = size;
}

// The numbered rows of one image, neighbours together.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::PackInput(int64_t image) const {
  const StripPart part = InImage(input_strip_.part, plan_.input, image);
  const std::vector<int64_t>& slots = band_->slots;
  const int64_t row_size = part.cols.size() * plan_.PartSize(part.channels.size());
  if (part.cols.size() == 0) return;
  for (int64_t i = 0; i < part.rows.size();) {
    const int64_t begin = i;
    while (i < part.rows.size() && slots[i] >= 0) ++i;
    if (begin == i) {
      ++i;
      continue;
    }
    StripPart rows = part;
    rows.rows = {part.rows.begin + begin, part.rows.begin + i};
    input_packer_.Pack(input_, rows, intermediate_, input_strip_.data + slots[begin] * row_size);
  }
}

template <class Stored, class Element>
void FilterPiece<Stored, Element>::PackOutput(int64_t image) const {
  StripPart part = InImage(output_strip_.part, plan_.output, image);
  part.channels = {part.channels.begin / plan_.parts, part.channels.end / plan_.parts};
  output_packer_.Pack(out_backprop_, part, intermediate_, output_strip_.data);
}

// What will be packed next, in equal parts beside the kernel's work on the band in `image`: the
// following image of the band, or the following band. Rows that are only read in part are not
// fetched.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::FetchNextStrips(const Band& band, int64_t image) {
  const PixelBlock& bounds = band.bounds;
  const bool last = image + 1 == bounds.image_end;
  ahead_ = {};
  const auto add = [&](const auto* data, const DataLayout& layout, const Strip& strip) {
    const StripPart next = last ? InImage(strip.next, layout, strip.next.image)
                                : InImage(strip.part, layout, image + 1);
    const LinesAhead::Part lines = LinesOf(data, layout, next);
    if (lines.num_runs > 0 && lines.run_lines > 0) ahead_.parts[ahead_.num_parts++] = lines;
  };
  if (!plan_.input_in_place && band_->all_rows) add(input_, plan_.input, input_strip_);
  if (!plan_.output_in_place) add(out_backprop_, plan_.output, output_strip_);
  int64_t num_lines = 0;
  for (int64_t i = 0; i < ahead_.num_parts; ++i) {
    num_lines += ahead_.parts[i].num_runs * ahead_.parts[i].run_lines;
  }
  const int64_t outputs = (bounds.row_end - bounds.row_begin) * (bounds.col_end - bounds.col_begin);
  const int64_t vectors = plan_.TapSize(unit_.channels.size()) / plan_.lanes;
  ahead_.at_once = CeilDiv(num_lines, outputs * vectors);
}

// Of tensors used in place, the rows behind those of the call; an image's last are followed by the
// next image's. `last` is the last input row of the call.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::FetchNextRows(int64_t image, int64_t last, int64_t row,
                                                 DepthwiseGradientRows<Element>* call) const {
  const DataLayout &in = plan_.input, &out = plan_.output;
  DepthwiseNextRows<Element>& next = call->next;
  const int64_t behind = in.batch * in.h - 1 - (image * in.h + last);
  if (plan_.input_in_place) {
    for (; next.count < std::min({plan_.rows.stride, behind, next.kMost}); ++next.count) {
      next.rows[next.count] = InputRow(image, last + next.count + 1);
    }
  }
  if (plan_.output_in_place && image * out.h + row + 1 < out.batch * out.h) {
    call->next_out_backprop.rows[0] = call->out_backprop + out.w * out.c;
    call->next_out_backprop.count = 1;
  }
}

template <class Stored, class Element>
void FilterPiece<Stored, Element>::Call(RowsCall* call) {
  if (ahead_.num_parts > 0) call->rows.ahead = &ahead_;
  row_kernels_.gradient(call->rows);
}

// A block of an out_backprop that is used in place.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::AddBlockInPlace(const PixelBlock& block, int64_t image) {
  RowsCall& call = band_->calls[0];
  for (int64_t row = block.row_begin; row < block.row_end; ++row) {
    FindCall(block, image, row, 0, &call);
    if (call.segments.empty()) continue;
    FetchNextRows(image, call.last_input, row, &call.rows);
    Call(&call);
  }
}

// The blocks of a band into the sums of their runs.
template <class Stored, class Element>
void FilterPiece<Stored, Element>::AddBand(const Band& band, int64_t first_run, double* folds) {
  const int64_t count =
      unit_.row_taps.size() * unit_.col_taps.size() * plan_.TapSize(unit_.channels.size());
  for (int64_t image = band.bounds.image_begin; image < band.bounds.image_end; ++image) {
    if (!plan_.input_in_place) PackInput(image);
    if (!plan_.output_in_place) PackOutput(image);
    FetchNextStrips(band, image);
    RowsCall* call = band_->calls.data();
    for (int64_t i = band.begin; i < band.end; ++i) {
      if (plan_.output_in_place) {
        AddBlockInPlace(plan_.blocks[i], image);
      } else {
        RowsCall* const end = call + band_->calls_of[i - band.begin];
        while (call != end) Call(call++);
      }
      if (image + 1 < plan_.blocks[i].image_end) continue;
      double* fold = folds + (i / kRunBlocks - first_run) * plan_.FoldSize();
      kernels_.fold_block(sums_, fold, plan_.f64 ? fold + plan_.UnitSize() : nullptr, count);
    }
  }
}

template <class Stored, class Element>
void FilterPiece<Stored, Element>::SumRuns(int64_t unit, Range runs, double* folds) {
  std::fill_n(sums_, plan_.UnitSize(), Compute{0});
  std::fill_n(folds, runs.size() * plan_.FoldSize(), 0.0);
  const FilterUnit before = std::exchange(unit_, plan_.UnitAt(unit));
  if (!(before.row_taps == unit_.row_taps && before.col_taps == unit_.col_taps &&
        before.channels.size() == unit_.channels.size())) {
    known_bands_.clear();
  }
  const FilterUnit next_unit = plan_.UnitAt(unit + 1 < plan_.num_units() ? unit + 1 : 0);
  const std::vector<Band> bands = plan_.BandsOf(runs);
  for (size_t i = 0; i < bands.size(); ++i) {
    const bool last = i + 1 == bands.size();
    StartBand(bands[i], last ? next_unit : unit_, bands[last ? 0 : i + 1]);
    AddBand(bands[i], runs.begin, folds);
  }
}

template class FilterPiece<Float16, Float16>;
template class FilterPiece<Float16, float>;
template class FilterPiece<BFloat16, BFloat16>;
template class FilterPiece<BFloat16, float>;
template class FilterPiece<float, float>;
template class FilterPiece<double, double>;

}  // namespace convgrad
