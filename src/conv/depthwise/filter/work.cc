#include "conv/depthwise/filter/work.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/lines.h"
#include "kernels/depthwise/depthwise.h"

namespace convgrad {
namespace {

// Outputs of a tile.
constexpr int64_t kTile = 7;

// Taps of a row of the filter, as the kernel takes them.
struct TapSegments {
  explicit TapSegments(const DepthwiseFilterCut& cut) {
    for (int64_t group = 0; group < cut.col_groups; ++group) {
      const int64_t taps = ShareOf(cut.cols.kernel, cut.col_groups, group).size();
      for (int64_t left = taps; left > 0; ++count) {
        const int64_t of_segment = SegmentTaps(left);
        issued += std::max(of_segment, kFewestSums);
        left -= of_segment;
      }
    }
  }

  int64_t count = 0, issued = 0;  // multiply-adds of an output
};

// Vectors of the sums of one tap, all channels.
int64_t TapVectors(const DepthwiseFilterCut& cut, int64_t lanes) {
  int64_t vectors = 0;
  for (int64_t chunk = 0; chunk < cut.chunks.count(); ++chunk) {
    vectors += cut.TapSize(cut.chunks[chunk].size()) / lanes;
  }
  return vectors;
}

// Pixels of all spans and images that are packed for one group of taps, by those of listed spans.
struct PackedPixels {
  PackedPixels(const DepthwiseFilterCut& cut, const FilterUnit& unit) {
    for (const PortionPass& pass : cut.passes) {
      for (const PortionPart& part : pass.parts) {
        for (const BlockSpan& span : part.spans) Add(cut, unit, span);
      }
    }
    if (blocks == std::ssize(cut.blocks)) return;
    for (int64_t* count : {&spans, &in, &out, &in_rows, &out_rows}) {
      *count = static_cast<int64_t>(Product(*count, std::ssize(cut.blocks)) / Product(blocks));
    }
  }

  void Add(const DepthwiseFilterCut& cut, const FilterUnit& unit, const BlockSpan& span) {
    const SpanPlace place = cut.PlaceOf(unit, span.bounds);
    const int64_t images = span.bounds.image_end - span.bounds.image_begin;
    blocks += span.end - span.begin;
    spans += images;
    in += images * place.in_rows.size() * place.in_cols.size();
    out += images * place.out_rows.size() * place.out_cols.size();
    in_rows += images * place.in_rows.size();
    out_rows += images * place.out_rows.size();
  }

  int64_t blocks = 0, spans = 0, in = 0, out = 0, in_rows = 0, out_rows = 0;
};

// Numbers of one operand that go to strips, `pixels` of them in `rows` and `spans`; of each channel
// `copies` lie in the strip.
void CountMoves(const DepthwiseFilterCut& cut, const DataLayout& layout, int64_t pixels,
                int64_t rows, int64_t spans, int64_t copies, double bytes, Work* work) {
  const double numbers = Product(pixels) * Product(layout.c);
  const bool nchw = layout.format == DataFormat::kNCHW;
  work->Add(nchw ? WorkKind::kTransposed : WorkKind::kCopied, numbers * bytes / 4);
  const bool whole_rows = cut.blocks_of_image == 1 || nchw;
  const int64_t runs = nchw                                    ? spans * layout.c
                       : cut.chunks.count() == 1 && whole_rows ? spans
                       : cut.chunks.count() == 1               ? rows
                                                               : pixels * cut.chunks.count();
  work->Add(WorkKind::kRun, Product(runs));
  if (copies > 1) {
    work->Add(WorkKind::kCopied, numbers * Product(copies) * Product(cut.compute_bytes) / 4);
  }
}

void CountStrips(const DepthwiseFilterCut& cut, double bytes, Work* work) {
  for (int64_t group = 0; group < cut.row_groups * cut.col_groups; ++group) {
    const PackedPixels packed(cut, cut.UnitAt(group));
    if (!cut.input_in_place) {
      CountMoves(cut, cut.input, packed.in, packed.in_rows, packed.spans,
                 cut.multiplier / cut.parts, bytes, work);
    }
    if (!cut.output_in_place) {
      CountMoves(cut, cut.output, packed.out, packed.out_rows, packed.spans, 1, bytes, work);
    }
  }
}

}  // namespace

// Left out: fetching ahead, and that taps off the row are sometimes skipped.
Work CountFilter(const DepthwiseFilterCut& cut, const KernelTable& kernels) {
  Work work;
  // A group of numbers that are widened as they are loaded is two vectors.
  const int64_t lanes = cut.f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const TapSegments segments(cut);
  const double vectors = Product(TapVectors(cut, lanes));
  const double tap_rows = Product(cut.input.batch * MetTaps(cut.rows));
  const int64_t row_blocks = std::max<int64_t>(1, cut.blocks_of_image / cut.rows.out);
  const int64_t row_tiles = std::max(row_blocks, CeilDiv(cut.cols.out, kTile));
  work.Add(WorkKind::kRowFma,
           vectors * tap_rows * Product(cut.cols.out) * Product(segments.issued));
  work.Add(WorkKind::kSegment, vectors * tap_rows * Product(row_tiles * segments.count));
  const auto num_blocks = std::ssize(cut.blocks);
  const int64_t folds = num_blocks + (cut.num_runs() > 1 ? cut.num_runs() : 0) + 1;
  work.Add(WorkKind::kFold, vectors * Product(cut.rows.kernel * cut.cols.kernel * folds));
  // Rows of strips that meet the same taps are one call: those inside, and some at both ends.
  const int64_t rows_of_block =
      std::max<int64_t>(1, cut.rows.out * row_blocks / cut.blocks_of_image);
  const int64_t calls =
      cut.output_in_place ? rows_of_block : std::min(rows_of_block, cut.rows.kernel) * cut.parts;
  work.Add(WorkKind::kCall,
           Product(cut.num_units() * cut.input.batch) * Product(cut.blocks_of_image * calls));
  int64_t tasks = 0;
  for (const PortionPass& pass : cut.passes) tasks += std::ssize(pass.parts);
  work.Add(WorkKind::kTask, Product(cut.num_units() * tasks));
  CountStrips(cut, Product(cut.stored_bytes), &work);
  const int64_t in_row = cut.input.w * cut.PartSize(cut.chunks.widest()) * cut.element_bytes;
  if ((cut.rows.kernel + 1) * in_row > kFirstCacheBytes) {
    work.Add(WorkKind::kFarLine, tap_rows * Product(cut.chunks.count() * cut.col_groups) *
                                     Product(CeilDiv(in_row, kLineBytes)));
  }
  return work;
}

}  // namespace convgrad
