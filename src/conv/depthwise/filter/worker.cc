#include "conv/depthwise/filter/worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace convgrad {
namespace {

StripForm InputForm(const DepthwiseFilterCut& cut) {
  return cut.multiplier == cut.parts ? StripForm::kPlain : StripForm::kRepeated;
}

StripForm OutputForm(const DepthwiseFilterCut& cut) {
  return cut.parts == 1 ? StripForm::kPlain : StripForm::kParted;
}

bool ByPlane(const DepthwiseFilterCut& cut) {
  return cut.input.format == DataFormat::kNCHW;
}

// A store keeps later loads waiting that end with the same bits of the address: where pixels lie a
// power of two apart, sums that begin like them took half as long again. `apart`: the largest power
// of two that divides the bytes from pixel to pixel, as far as it matters.
bool Clashes(const void* sums, const void* data, uintptr_t apart) {
  return (reinterpret_cast<uintptr_t>(sums) - reinterpret_cast<uintptr_t>(data)) % apart <
         apart / 4;
}

// to[i * parts + part] = from[part * stride + i] for i < count.
template <class Compute>
void Interleave(const Compute* from, int64_t stride, int64_t parts, int64_t count, Compute* to) {
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t i = 0; i < count; ++i) to[i * parts + part] = from[part * stride + i];
  }
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
FilterWorker<Stored, Element>::FilterWorker(const DepthwiseFilterCut& cut,
                                            const KernelTable& kernels, const Stored* input,
                                            const Stored* out_backprop)
    : cut_(cut),
      kernels_(kernels.Depthwise<Compute>()),
      row_kernels_(kernels.DepthwiseRows<Element>()),
      pack_(kernels.Pack<Stored>()),
      input_packer_(kernels, cut.input, ByPlane(cut), InputForm(cut), cut.multiplier),
      output_packer_(kernels, cut.output, ByPlane(cut), OutputForm(cut), cut.parts),
      input_(input),
      out_backprop_(out_backprop),
      memory_(cut.worker_bytes()),
      sums_(PlaceOfSums()),
      input_strip_{sums_ + cut.unit_size, {}, {}},
      output_strip_{input_strip_.data + cut.input_size, {}, {}},
      intermediate_(output_strip_.data + cut.output_size),
      finder_(cut, Operands()) {
  // Lanes beyond the channels are read, where those of a pixel are no vector.
  if (cut.PartSize(cut.chunks.widest()) < cut.lanes) {
    std::memset(memory_.data(), 0, static_cast<size_t>(memory_.size()));
  }
}

template <class Stored, class Element>
auto FilterWorker<Stored, Element>::PlaceOfSums() -> Compute* {
  constexpr uintptr_t kMost = 1024, kLeast = 512;
  const auto pixel_bytes = static_cast<uintptr_t>(cut_.output.c * cut_.stored_bytes);
  const uintptr_t apart = std::min(kMost, pixel_bytes & -pixel_bytes);
  std::byte* memory = memory_.data();
  while (cut_.input_in_place && apart >= kLeast &&
         (Clashes(memory, input_, apart) || Clashes(memory, out_backprop_, apart))) {
    memory += LinesAhead::kLineBytes;
  }
  return reinterpret_cast<Compute*>(memory);
}

template <class Stored, class Element>
FilterOperands<Element> FilterWorker<Stored, Element>::Operands() const {
  const void* input = cut_.input_in_place ? static_cast<const void*>(input_) : input_strip_.data;
  const void* output =
      cut_.output_in_place ? static_cast<const void*>(out_backprop_) : output_strip_.data;
  return {static_cast<const Element*>(input), static_cast<const Element*>(output), sums_};
}

// True if the calls of a span are known; known_ becomes it, or a new one without calls.
template <class Stored, class Element>
bool FilterWorker<Stored, Element>::IsKnown(const BlockSpan& span) {
  const int64_t first_block = span.begin % cut_.blocks_of_image;
  const int64_t num_blocks = span.end - span.begin;
  for (SpanCalls<Element>& known : known_spans_) {
    known_ = &known;
    if (known.first_block == first_block && known.num_blocks == num_blocks) return true;
  }
  if (std::ssize(known_spans_) == kMostKnownSpans) known_spans_.clear();
  known_spans_.push_back({first_block, num_blocks, cut_.PlaceOf(unit_, span.bounds),
                          span.bounds.image_begin, unit_.channels.begin});
  known_ = &known_spans_.back();
  return false;
}

template <class Stored, class Element>
void FilterWorker<Stored, Element>::PlaceStrips(const SpanPlace& place, int64_t image,
                                                Range channels, StripPart* input,
                                                StripPart* output) const {
  *input = {image, channels, place.in_rows, place.in_cols};
  *output = {image,
             {channels.begin * cut_.multiplier, channels.end * cut_.multiplier},
             place.out_rows,
             place.out_cols};
}

// Finds where the span's strips are and what probably follows them: `next`, of `next_channels` and
// the same taps.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::StartSpan(const BlockSpan& span, const BlockSpan& next,
                                              Range next_channels) {
  const bool is_known = IsKnown(span);
  const bool alike = &next == &span;
  PlaceStrips(known_->place, span.bounds.image_begin, unit_.channels, &input_strip_.part,
              &output_strip_.part);
  PlaceStrips(alike ? known_->place : cut_.PlaceOf(unit_, next.bounds), next.bounds.image_begin,
              next_channels, &input_strip_.next, &output_strip_.next);
  if (!is_known) finder_.FindAll(unit_, span, known_);
}

// The rows of one image that are read, neighbours together.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::PackInput(int64_t image) const {
  const StripPart part = InImage(input_strip_.part, cut_.input, image);
  const int64_t row_size = part.cols.size() * cut_.PartSize(part.channels.size());
  if (part.cols.size() == 0) return;
  known_->rows.ForRuns(part.rows, [&](Range rows, int64_t slot) {
    StripPart held = part;
    held.rows = rows;
    input_packer_.Pack(input_, held, intermediate_, input_strip_.data + slot * row_size);
  });
}

template <class Stored, class Element>
void FilterWorker<Stored, Element>::PackOutput(int64_t image) const {
  StripPart part = InImage(output_strip_.part, cut_.output, image);
  part.channels = {part.channels.begin / cut_.parts, part.channels.end / cut_.parts};
  output_packer_.Pack(out_backprop_, part, intermediate_, output_strip_.data);
}

// Fetches what will be packed next, in equal parts beside the kernel's work on the span in `image`:
// the following image of the span, or the following span. Rows that are only read in part are not
// fetched.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::FetchNextStrips(const BlockSpan& span, int64_t image) {
  const PixelBlock& bounds = span.bounds;
  const bool last = image + 1 == bounds.image_end;
  ahead_ = {};
  const auto add = [&](const auto* data, const DataLayout& layout, const Strip& strip) {
    const StripPart next = last ? InImage(strip.next, layout, strip.next.image)
                                : InImage(strip.part, layout, image + 1);
    const LinesAhead::Part lines = LinesOf(data, layout, next);
    if (lines.num_runs > 0 && lines.run_lines > 0) ahead_.parts[ahead_.num_parts++] = lines;
  };
  if (!cut_.input_in_place && known_->rows.has_all()) add(input_, cut_.input, input_strip_);
  if (!cut_.output_in_place) add(out_backprop_, cut_.output, output_strip_);
  int64_t num_lines = 0;
  for (int64_t i = 0; i < ahead_.num_parts; ++i) {
    num_lines += ahead_.parts[i].num_runs * ahead_.parts[i].run_lines;
  }
  const int64_t outputs = (bounds.row_end - bounds.row_begin) * (bounds.col_end - bounds.col_begin);
  const int64_t vectors = cut_.TapSize(unit_.channels.size()) / cut_.lanes;
  ahead_.at_once = CeilDiv(num_lines, outputs * vectors);
}

// The rows behind those of a call, of tensors used in place; an image's last are followed by the
// next image's.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::FetchNextRows(int64_t image, int64_t out_backprop_at,
                                                  const typename FilterCall<Element>::Reads& reads,
                                                  DepthwiseGradientRows<Element>* rows) const {
  const DataLayout &in = cut_.input, &out = cut_.output;
  rows->next = rows->next_out_backprop = {};
  DepthwiseNextRows<Element>& next = rows->next;
  const int64_t behind = in.batch * in.h - 1 - (image * in.h + reads.last_input);
  if (cut_.input_in_place) {
    for (; next.count < std::min({cut_.rows.stride, behind, next.kMost}); ++next.count) {
      next.rows[next.count] =
          finder_.InputRow(unit_, *known_, image, reads.last_input + next.count + 1);
    }
  }
  if (cut_.output_in_place && image * out.h + reads.first_output + 1 < out.batch * out.h) {
    rows->next_out_backprop.rows[0] = rows->out_backprop + out_backprop_at + out.w * out.c;
    rows->next_out_backprop.count = 1;
  }
}

// The rows of a block in one or several images.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::Call(int64_t image, int64_t num_images,
                                         FilterCall<Element>* call) {
  if (call->groups.empty()) return;
  DepthwiseGradientImages<Element> images = {};
  images.groups = call->groups.data();
  images.num_groups = std::ssize(call->groups);
  images.num_images = num_images;
  const int64_t from_image = image - known_->image;
  const int64_t from_channel = unit_.channels.begin - known_->channel;
  if (cut_.input_in_place) {
    images.source_step = cut_.input.plane() * cut_.input.c;
    images.source_at = from_image * images.source_step + from_channel;
  }
  if (cut_.output_in_place) {
    images.out_backprop_step = cut_.output.plane() * cut_.output.c;
    images.out_backprop_at = from_image * images.out_backprop_step + from_channel * cut_.multiplier;
  }
  for (size_t i = 0; i < call->groups.size(); ++i) {
    DepthwiseGradientRows<Element>& rows = call->groups[i];
    rows.ahead = ahead_.num_parts > 0 ? &ahead_ : nullptr;
    if (cut_.fetches) FetchNextRows(image, images.out_backprop_at, call->reads[i], &rows);
  }
  row_kernels_.gradient(images);
}

// True if a call takes the only block of a span in all of its images.
template <class Stored, class Element>
bool FilterWorker<Stored, Element>::TakesImagesAtOnce(const BlockSpan& span) const {
  return cut_.input_in_place && cut_.output_in_place && !cut_.fetches && span.end - span.begin == 1;
}

// The blocks of a span into the sums of their portions.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::AddSpan(const BlockSpan& span, int64_t first_portion,
                                            double* folds) {
  const int64_t count =
      unit_.row_taps.size() * unit_.col_taps.size() * cut_.TapSize(unit_.channels.size());
  const PixelBlock& bounds = span.bounds;
  const int64_t step = TakesImagesAtOnce(span) ? bounds.image_end - bounds.image_begin : 1;
  for (int64_t image = bounds.image_begin; image < bounds.image_end; image += step) {
    if (!cut_.input_in_place) PackInput(image);
    if (!cut_.output_in_place) PackOutput(image);
    FetchNextStrips(span, image);
    FilterCall<Element>* call = known_->calls.data();
    for (int64_t i = span.begin; i < span.end; ++i) {
      for (int64_t part = 0; part < cut_.parts; ++part) Call(image, step, call++);
      if (image + step < bounds.image_end || cut_.has_one_block()) continue;
      double* fold = folds + (i / cut_.portion_blocks - first_portion) * cut_.FoldSize();
      kernels_.fold_block(sums_, fold, cut_.f64 ? fold + cut_.unit_size : nullptr, count);
    }
  }
}

template <class Stored, class Element>
void FilterWorker<Stored, Element>::StartUnit(int64_t unit) {
  const FilterUnit before = std::exchange(unit_, cut_.UnitAt(unit));
  if (!(before.row_taps == unit_.row_taps && before.col_taps == unit_.col_taps &&
        before.channels.size() == unit_.channels.size())) {
    known_spans_.clear();
  }
}

template <class Stored, class Element>
void FilterWorker<Stored, Element>::SumPortions(int64_t unit, const PortionPart& part,
                                                double* folds) {
  std::fill_n(sums_, cut_.unit_size, Compute{0});
  if (!cut_.has_one_block()) std::fill_n(folds, part.portions.size() * cut_.FoldSize(), 0.0);
  StartUnit(unit);
  const Range next_channels = cut_.UnitAt(unit + 1 < cut_.num_units() ? unit + 1 : 0).channels;
  std::vector<BlockSpan> found;
  if (part.spans.empty()) found = cut_.SpansOf(part.portions);
  const std::vector<BlockSpan>& spans = part.spans.empty() ? found : part.spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool last = i + 1 == spans.size();
    StartSpan(spans[i], spans[last ? 0 : i + 1], last ? next_channels : unit_.channels);
    AddSpan(spans[i], part.portions.begin, folds);
  }
}

// Sums as the kernel leaves them, whole groups, in the order of the channels.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::OrderGroups(int64_t count) {
  const int64_t group = row_kernels_.group, parts = row_kernels_.parts;
  if (parts == 1) return;
  for (Compute* first = sums_; first != sums_ + count; first += group) {
    apart_.assign(first, first + group);
    Interleave(apart_.data(), group / parts, parts, group / parts, first);
  }
}

// Sums of a tap, parts of whole vectors, in the order of the result.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::OrderParts(int64_t channels, Compute* sums) {
  const int64_t size = cut_.PartSize(channels), part_sums = cut_.PartSums(channels);
  const int64_t parts = cut_.parts, lanes = cut_.lanes;
  // The last vector of a part is of its last channels, wherever they begin.
  for (int64_t part = 0; lanes < size && size < part_sums && part < parts; ++part) {
    Compute* const first = sums + part * part_sums;
    std::copy_n(first + part_sums - lanes, lanes, first + size - lanes);
  }
  if (parts == 1) return;
  apart_.assign(sums, sums + parts * part_sums);
  Interleave(apart_.data(), part_sums, parts, size, sums);
}

// The block sums' memory is free between one unit's portions and the next.
template <class Stored, class Element>
void FilterWorker<Stored, Element>::Finish(const FilterUnit& unit, const double* fold,
                                           Stored* result) {
  const int64_t tap_size = cut_.TapSize(unit.channels.size());
  const int64_t count = unit.row_taps.size() * unit.col_taps.size() * tap_size;
  if (cut_.has_one_block()) {
    kernels_.finish_block(sums_, count);
  } else {
    kernels_.finish(fold, cut_.f64 ? fold + cut_.unit_size : nullptr, sums_, count,
                    sizeof(Stored) == 2);
  }
  OrderGroups(count);
  Compute* sums = sums_;
  for (int64_t row = unit.row_taps.begin; row < unit.row_taps.end; ++row) {
    for (int64_t col = unit.col_taps.begin; col < unit.col_taps.end; ++col, sums += tap_size) {
      OrderParts(unit.channels.size(), sums);
      pack_.narrow(sums,
                   result + (row * cut_.cols.kernel + col) * cut_.output.c +
                       unit.channels.begin * cut_.multiplier,
                   unit.channels.size() * cut_.multiplier);
    }
  }
}

template class FilterWorker<Float16, Float16>;
template class FilterWorker<Float16, float>;
template class FilterWorker<BFloat16, BFloat16>;
template class FilterWorker<BFloat16, float>;
template class FilterWorker<float, float>;
template class FilterWorker<double, double>;

}  // namespace convgrad
