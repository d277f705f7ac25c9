#include "conv/depthwise/data/work.h"

#include <algorithm>

#include "base/checked.h"
#include "base/memory.h"
#include "conv/axes/lines.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/depthwise_rows.h"
#include "kernels/depthwise/plane.h"
#include "order/canonical_order.h"

namespace convgrad {
namespace {

// Outputs of a row that the kernels on rows of channels sum together.
constexpr int64_t kRowTile = 7;
// Channels of a pixel that the kernels part, or merge, by vectors.
constexpr int64_t kMostParted = 3;

// Tiles of a row of results, their segments, and their terms as if no column were off the row.
struct RowTiles {
  explicit RowTiles(const DepthwiseDataCut& cut);

  int64_t lines = 0, tiles = 0, segments = 0, terms = 0;
  bool apart = false;  // columns lie by residues
};

// Vectors that a row of `width` results is cut into by the kernel on padded planes, and its tiles.
struct PlaneVectors {
  PlaneVectors(int64_t width, int64_t lanes, int64_t least, int64_t most_live, bool many_registers);

  int64_t vectors, tiles;
};

// Moving numbers of `bytes` bytes counts as moving so many of 4.
double Weight(int64_t bytes) {
  return Product(bytes) / 4;
}

// True with vectors of 64 bytes and 32 registers.
bool HasWideVectors(const KernelTable& kernels) {
  return kernels.depthwise_f64.lanes * int64_t{sizeof(double)} >= kLineBytes;
}

RowTiles::RowTiles(const DepthwiseDataCut& cut) {
  const int64_t tap_terms = cut.tap_terms();
  for (const ColPart& part : cut.cols_of) {
    apart |= part.residues > 1;
    for (const TapLine& line : part.lines) {
      const int64_t of_line = CeilDiv(line.count, kRowTile);
      ++lines;
      tiles += of_line;
      segments += of_line * cut.RowSegments(part, line);
      terms += of_line * kRowTile * line.num_taps * tap_terms;
    }
  }
}

PlaneVectors::PlaneVectors(int64_t width, int64_t lanes, int64_t least, int64_t most_live,
                           bool many_registers) {
  least = std::min(least, lanes);
  const int64_t half = std::max(least, lanes / 2);
  const int64_t size = width > lanes ? std::max(least, lanes) : width > half ? half : least;
  int64_t most = most_live <= 3 ? 3 : most_live <= 5 ? 2 : 1;
  if (many_registers) most = most_live <= 3 ? 4 : most_live <= 7 ? 3 : 2;
  vectors = CeilDiv(width, size);
  tiles = CeilDiv(vectors, most);
  vectors = std::max(vectors, std::min<int64_t>(most, 2));
}

// Pixels of an image that are packed, some for several tasks.
double PackedPixels(const DepthwiseDataCut& cut) {
  int64_t num_rows = 0, num_cols = 0;
  for (int64_t i = 0; i < cut.row_parts; ++i) {
    num_rows += SourcesOf(cut.rows, ShareOf(cut.rows.num_results(), cut.row_parts, i)).size();
  }
  for (const ColPart& part : cut.cols_of) num_cols += part.sources.size();
  return Product(num_rows) * Product(num_cols);
}

// Numbers that go from where they lie to strips, and results that go back.
void CountMovesOfStrips(const DepthwiseDataCut& cut, Work* work) {
  const bool nchw = cut.source.format == DataFormat::kNCHW, gathers = cut.by_plane && !nchw;
  const double stored = Weight(cut.stored_bytes), computed = Weight(cut.element_bytes);
  const double sources = Product(cut.source.batch * cut.source.c) * PackedPixels(cut);
  const double results = Product(cut.result.batch * cut.result.plane() * cut.result.c);
  const double tasks = Product(cut.num_tasks());
  if (nchw || gathers) {
    work->Add(WorkKind::kTransposed, sources * stored + results * stored);
    // Some pixels of all images are widened first.
    if (gathers && cut.source.c != cut.multiplier) work->Add(WorkKind::kCopied, sources * stored);
    const double planes = nchw ? Product(cut.source.batch) : Product(cut.source.plane());
    work->Add(WorkKind::kRun, planes * Product(cut.source.c + cut.result.c));
  } else {
    if (!cut.result_in_place) {
      work->Add(WorkKind::kCopied, results * computed);
      work->Add(WorkKind::kRun, Product(cut.result.batch * cut.result.h) * tasks);
    }
    work->Add(WorkKind::kRun, Product(cut.source.batch * cut.source.h));
    if (cut.multiplier == 1) work->Add(WorkKind::kCopied, sources * computed);
  }
  if (cut.multiplier == 1) return;
  if (cut.forward) {
    work->Add(WorkKind::kCopied, sources * Product(cut.multiplier) * computed);
    return;
  }
  // Planes are transposed apart.
  if (nchw) return;
  work->Add(cut.multiplier <= kMostParted ? WorkKind::kCopied : WorkKind::kScattered,
            sources * computed);
}

// One call makes all rows of a task: each vector of a source row is loaded once for all of them.
Work CountAllRows(const DepthwiseDataCut& cut, int64_t vectors) {
  Work work;
  const int64_t stride = cut.forward ? cut.rows.stride : 1;
  const bool spread = !cut.forward && cut.cols.stride == 2;
  // A part of the rows reads one row more than its share, and of most rows adds to three results.
  const int64_t cols = spread ? cut.cols.num_sources() : cut.cols.num_results();
  const int64_t rows = (spread ? cut.rows.num_sources() : cut.rows.num_results()) + cut.row_parts;
  const int64_t tiles = CeilDiv(cols, kRowTile);
  work.Add(WorkKind::kRowFma, Product(vectors) * Product(rows * cols * kRowsTaps * kRowsTaps));
  work.Add(WorkKind::kSegment, Product(vectors) * Product(rows * stride * tiles));
  work.Add(WorkKind::kFold,
           Product(vectors) * Product(cut.rows.num_results() * cut.cols.num_results()));
  work.Add(WorkKind::kCall, Product(vectors) * Product(cut.row_parts * tiles));
  work.Add(WorkKind::kTask, Product(cut.num_tasks()));
  return work;
}

}  // namespace

// Left out: that rows in turn are few calls, where a cut fetches ahead or writes around the caches,
// that terms off the row are sometimes skipped, and that a row's last tile may be half as wide.
Work CountDirect(const DepthwiseDataCut& cut, const KernelTable& kernels) {
  Work work;
  const RowTiles row(cut);
  // A group of numbers that are widened as they are loaded is two vectors.
  const int64_t lanes =
      cut.element_bytes == 8 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  int64_t vectors = 0, filters = 0;
  for (int64_t chunk = 0; chunk < cut.chunks.count(); ++chunk) {
    vectors += CeilDiv(cut.ResultSize(cut.chunks[chunk].size()), lanes);
    filters += cut.SourceSize(cut.chunks[chunk].size());
  }
  vectors *= cut.num_images;
  if (cut.all_rows && !cut.rows_in_turn) return CountAllRows(cut, vectors);
  const int64_t tap_rows = MetTaps(cut.rows), num_rows = cut.rows.num_results();
  work.Add(WorkKind::kRowFma, Product(vectors) * Product(tap_rows) * Product(row.terms));
  work.Add(WorkKind::kSegment, Product(vectors) * Product(tap_rows) * Product(row.segments));
  const int64_t results = cut.num_images * num_rows * cut.cols.num_results();
  const int64_t blocks = CeilDiv(cut.rows.kernel * cut.cols.kernel * cut.tap_terms(), kBlockTerms);
  work.Add(WorkKind::kFold, Product(vectors / cut.num_images) * Product(results) * Product(blocks));
  work.Add(WorkKind::kCall,
           Product(cut.num_images * cut.chunks.count() * num_rows) * Product(row.lines));
  work.Add(WorkKind::kTask, Product(cut.num_tasks()));
  if (!cut.source_in_place) {
    const int64_t taps = cut.rows.kernel * cut.cols.kernel;
    const int64_t packings = cut.num_tasks() / cut.chunks.count();
    work.Add(WorkKind::kCopied, Product(taps * filters) * Product(packings));
    CountMovesOfStrips(cut, &work);
  }
  if (row.apart) {
    work.Add(WorkKind::kRun, Product(cut.source.batch * cut.source.plane()));
  }
  const int64_t source_row =
      cut.cols.num_sources() * cut.SourceSize(cut.chunks.widest()) * cut.element_bytes;
  if (cut.rows.kernel * source_row > kFirstCacheBytes) {
    work.Add(WorkKind::kFarLine, Product(cut.num_images * cut.chunks.count()) * Product(tap_rows) *
                                     Product(CeilDiv(source_row, kLineBytes)));
  }
  return work;
}

namespace {

// The sums of one plane of results of a part of the rows. Products of a plane with many filters
// take longer beside those of matrices, by the times of all machines in data/perf.
void CountRows(const PlanesCut& cut, const VisitedRows& rows, double planes,
               const KernelTable& kernels, Work* work) {
  const bool f64 = cut.compute_bytes == 8, wide = HasWideVectors(kernels);
  const int64_t lanes = f64 ? kernels.depthwise_f64.lanes : kernels.depthwise_f32.lanes;
  const int64_t least = f64 ? kLeastPlaneWidth<double> : kLeastPlaneWidth<float>;
  const PlaneVectors row(cut.width, lanes, least, rows.most_live, wide);
  int64_t live = 0, issued = 0, sources = 0;
  for (const PlaneVisit& visit : rows.visits) {
    live += visit.live;
    issued += visit.live == 0 ? 0
                              : std::max(visit.live * row.vectors,
                                         std::min(row.tiles, row.vectors) * kFewestSums);
    sources += visit.live > 0;
  }
  int64_t terms = 0;
  for (const ColPhase& phase : cut.col_phases) terms += phase.num_terms();
  // Those of 3x3 stay in registers, where there are many.
  const bool kept = wide && rows.most_live == 3 && terms == 3 && rows.line.stride == 1;
  constexpr int64_t kManyFilters = 8;
  const double longer = cut.multiplier >= kManyFilters ? 1.5 : 1;
  work->Add(WorkKind::kPlaneFma, longer * planes * Product(issued * terms));
  work->Add(
      WorkKind::kPlaneLoad,
      longer * planes * Product(terms * (sources * row.vectors + (kept ? 0 : live * row.tiles))));
  const double of_phases = planes * Product(cut.num_phases());
  work->Add(WorkKind::kFold,
            of_phases * Product((rows.line.count + rows.most_live - 1) * row.vectors));
  work->Add(WorkKind::kSegment, of_phases * Product(sources * row.tiles));
  work->Add(WorkKind::kCall, of_phases * Product(row.tiles));
}

// Numbers of a part of the rows of all groups that are staged and stored.
void CountMoves(const PlanesCut& cut, const RowPart& part, Work* work) {
  const double groups = Product(cut.num_groups);
  const double sources =
      Product(part.sources.size() * cut.cols.num_sources()) * groups * Product(cut.staged_planes());
  const double results =
      Product(part.results.size() * cut.cols.num_results()) * groups * Product(cut.result_planes());
  const double stored = Weight(cut.stored_bytes);
  const bool parts_source = cut.interleaved || cut.num_residues > 1;
  const auto parted = [&](int64_t planes) {
    return cut.interleaved && planes > kMostParted ? WorkKind::kScattered : WorkKind::kTransposed;
  };
  work->Add(parts_source ? parted(cut.staged_planes()) : WorkKind::kCopied, sources * stored);
  if (parts_source && cut.stored_bytes < cut.compute_bytes) {
    work->Add(WorkKind::kCopied, sources * stored);
  }
  const double rows_of_group = Product(cut.interleaved ? 1 : cut.staged_planes());
  work->Add(WorkKind::kRun, groups * rows_of_group * Product(part.sources.size()));
  if (cut.interleaved || cut.num_phases() > 1) {
    work->Add(parted(cut.result_planes()), results * stored);
    work->Add(WorkKind::kRun, groups * Product(part.results.size() * cut.result_planes()));
  } else if (!cut.direct) {
    work->Add(WorkKind::kCopied, results * stored);
  }
  if (cut.streamed_planes > 0) work->Add(WorkKind::kCopied, results * stored);
}

}  // namespace

// Left out: fetching ahead.
Work CountPlanes(const PlanesCut& cut, const KernelTable& kernels) {
  Work work;
  const double planes = Product(cut.num_groups) * Product(cut.result_planes());
  for (const RowPart& part : cut.row_parts) {
    for (const VisitedRows& rows : part.lines) CountRows(cut, rows, planes, kernels, &work);
    CountMoves(cut, part, &work);
  }
  work.Add(WorkKind::kScattered, Product(cut.num_weights()));
  work.Add(WorkKind::kTask, Product(cut.num_tasks()));
  return work;
}

}  // namespace convgrad
