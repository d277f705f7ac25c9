// The work of a filter gradient by tiles, counted for the cost model.
#include <algorithm>

#include "base/memory.h"
#include "conv/conv2d/filter/cut.h"
#include "conv/move/bfloat16_pairs.h"

namespace convgrad {
namespace {

class Counter {
 public:
  Counter(const Problem& problem, const FilterCut& cut, const TileCounts& tiles)
      : problem_(problem),
        g_(problem.geometry),
        cut_(cut),
        tiles_(tiles),
        planar_(cut.format == DataFormat::kNCHW) {}

  Work All() {
    CountTiles();
    CountFolds();
    for (const FilterCut::Pass& pass : cut_.passes) {
      if (!cut_.UsesInputInPlace()) CountInput(pass);
      if (!cut_.UsesOutputInPlace()) CountOutput(pass);
    }
    CountResult();
    return work_;
  }

 private:
  void CountTiles();
  void CountFolds();
  void CountInput(const FilterCut::Pass& pass);
  void CountColumns(const FilterCut::Pass& pass);
  void CountOutput(const FilterCut::Pass& pass);
  void CountResult();
  double Segments(double terms) const;
  bool HasCrowdedPlanes() const;
  bool HasFarPixels() const;
  bool HasFarColumns() const;
  void Move(WorkKind kind, double elements, double pieces) {
    work_.Add(kind, elements * static_cast<double>(cut_.sizes.element_bytes) / 4);
    work_.Add(WorkKind::kRun, pieces);
  }
  // Packed from planes or pixels: pieces are rows of planes, or what a pixel has of a block of
  // channels.
  void MovePixels(double pixels, double rows, int64_t channels, int64_t block) {
    if (planar_) {
      Move(WorkKind::kTransposed, pixels * Product(channels), rows * Product(channels));
    } else {
      Move(WorkKind::kCopied, pixels * Product(channels),
           pixels * Product(CeilDiv(channels, block)));
    }
  }

  const Problem& problem_;
  const ConvGeometry& g_;
  const FilterCut& cut_;
  const TileCounts& tiles_;
  const bool planar_;
  Work work_;
};

void Counter::CountTiles() {
  // A tap's: all, or where padding is skipped those on the image.
  const double terms = cut_.joined
                           ? Product(g_.batch, g_.out_h, cut_.out_cols)
                           : static_cast<double>(problem_.ValidTerms()) /
                                 Product(cut_.num_taps, g_.group_in_c, g_.out_c, tiles_.pixels);
  const double matrices = Product(g_.groups, cut_.tile_taps);
  work_.Add(WorkKind::kGemmFma, matrices * terms * tiles_.added);
  work_.Add(WorkKind::kGemmLoad, matrices * terms * tiles_.loaded);
  work_.Add(WorkKind::kGemmSingle, matrices * terms * tiles_.singles);
  work_.Add(WorkKind::kSegment, matrices * Segments(terms) * tiles_.count);
  work_.Add(WorkKind::kCall,
            matrices * Product(tiles_.panels.count, CeilDiv(cut_.row_blocks, cut_.group_row_blocks),
                               CeilDiv(std::ssize(cut_.blocks), cut_.chunk_blocks)));
  if (HasCrowdedPlanes()) {
    work_.Add(WorkKind::kFarLine, matrices * terms * tiles_.count * Product(tiles_.tile_rows));
  } else if (HasFarPixels()) {
    work_.Add(WorkKind::kFarLine, matrices * terms * tiles_.count);
  }
  if (HasFarColumns()) work_.Add(WorkKind::kFarLine, matrices * terms * tiles_.count);
}

// For one tap and tile. Where the terms of one row of the output go on in the next, a block is one.
double Counter::Segments(double terms) const {
  const double blocks = Product(std::ssize(cut_.blocks));
  const bool dense = g_.kernel_w == 1 && g_.stride_w == 1 && g_.stride_h == 1;
  const bool own_columns = cut_.joined && cut_.inputs_in_lanes && !FilterCut::SharesColumns(g_);
  const bool own_pixels = cut_.num_taps == 1 && !planar_;
  if (own_columns || (!(cut_.joined && cut_.inputs_in_lanes) && (dense || own_pixels))) {
    return blocks;
  }
  return std::max(blocks, terms / Product(cut_.out_cols));
}

// Rows that are planes which meet in the same sets of the first cache, and which several tiles
// read: a single one's are read once, in order.
bool Counter::HasCrowdedPlanes() const {
  constexpr int64_t kWayBytes = 4096, kFewRows = 8;
  return cut_.InputIsPlanar() && cut_.tile_taps * tiles_.panels.count > 1 &&
         tiles_.tile_rows > kFewRows && g_.in_h * g_.in_w * tiles_.element_bytes % kWayBytes == 0;
}

// Rows that are some numbers of each of many pixels, whose lines, or pages, every tile has to find
// again.
bool Counter::HasFarPixels() const {
  const bool planes = cut_.UsesOutputInPlace() && planar_;
  const bool pixels =
      cut_.inputs_in_lanes ? !planes : cut_.joined || (cut_.UsesInputInPlace() && !planar_);
  const int64_t channels = cut_.inputs_in_lanes ? g_.out_c : g_.in_c;
  return pixels && channels * tiles_.element_bytes > kLineBytes &&
         (cut_.HasManyPixels() || cut_.LieOnManyPages(channels));
}

// Pixels whose columns of taps are more than a panel: what one reads of them is not side by side.
bool Counter::HasFarColumns() const {
  const int64_t shared = FilterCut::SharesColumns(g_) ? g_.stride_w : g_.kernel_w;
  return cut_.joined && cut_.inputs_in_lanes && shared * cut_.ColumnNumbers() > tiles_.panels.cols;
}

void Counter::CountFolds() {
  const int64_t runs = cut_.NumRuns() == 1 ? 0 : cut_.NumRuns();
  work_.Add(WorkKind::kFold,
            Product(g_.groups, cut_.tile_taps, tiles_.vectors, std::ssize(cut_.blocks) + runs));
  const int64_t tiles = cut_.TilesOf(cut_.passes.front());
  work_.Add(WorkKind::kTask, Product(cut_.passes.size(), cut_.stages.size(), cut_.TasksOf(tiles)));
}

void Counter::CountInput(const FilterCut::Pass& pass) {
  const int64_t channels = pass.num_groups() * g_.group_in_c;
  if (cut_.joined && cut_.inputs_in_lanes) return CountColumns(pass);
  const double rows = Product(g_.batch, cut_.rows.count), pixels = rows * Product(cut_.cols.count);
  if (cut_.InputIsPlanar()) {
    const double planes = Product(channels);
    return Move(WorkKind::kCopied, pixels * planes,
                planes * (cut_.rows.step == 1 ? Product(g_.batch) : rows));
  }
  if (cut_.inputs_in_lanes) {
    const int64_t taken = pass.num_groups() == 1
                              ? std::min(g_.group_in_c, pass.num_panels() * tiles_.panels.cols)
                              : channels;
    return MovePixels(pixels, rows, taken, tiles_.panels.cols);
  }
  MovePixels(pixels, rows, channels, cut_.joined ? channels : cut_.ChannelBlock());
}

// The padded copy, group by group, and from it, while it is in a cache, what every column of taps
// meets. Where pixels are a page apart a group's numbers have a page each.
void Counter::CountColumns(const FilterCut::Pass& pass) {
  constexpr int64_t kPage = 4096;
  constexpr double kWithinCache = 0.25;  // of what it takes to move a tensor's numbers
  const int64_t channels = pass.num_groups() * g_.group_in_c;
  const double rows =
      Product(g_.batch, (g_.out_h - 1) * g_.stride_h + (g_.kernel_h - 1) * g_.dilation_h + 1);
  const double pixels = rows * Product(cut_.PaddedWidth());
  if (!planar_ && g_.groups > 1 && g_.in_c * tiles_.element_bytes >= kPage) {
    Move(WorkKind::kScattered, pixels * Product(channels), pixels * Product(pass.num_groups()));
  } else {
    MovePixels(pixels, rows, channels, g_.group_in_c);
  }
  const double columns = Product(g_.batch, g_.out_h, cut_.cols.count, g_.kernel_h);
  Move(WorkKind::kCopied, kWithinCache * columns * Product(channels),
       kWithinCache * columns * Product(pass.num_groups()));
}

void Counter::CountOutput(const FilterCut::Pass& pass) {
  const double rows = Product(g_.batch, g_.out_h);
  const double pixels = rows * Product(cut_.out_cols);
  const bool panels = !cut_.inputs_in_lanes;
  const int64_t channels =
      panels ? cut_.ResultColumns(pass).size() : pass.num_groups() * g_.group_out_c;
  MovePixels(pixels, rows, channels, panels ? tiles_.panels.cols : channels);
}

// Turned, or rounded to 16 bits.
void Counter::CountResult() {
  const double numbers = Product(cut_.ResultRows(), g_.out_c);
  if (cut_.inputs_in_lanes) {
    Move(WorkKind::kTransposed, numbers, Product(cut_.ResultRows(), g_.groups));
  } else if (cut_.RoundsResult()) {
    Move(WorkKind::kCopied, numbers, Product(cut_.ResultRows(), cut_.passes.size()));
  }
}

}  // namespace

TileCounts TilesOfForm(const Problem& problem, const KernelTable& kernels, FilterForm form) {
  const int64_t rows = FilterCut::NumRows(problem.geometry, form);
  const int64_t cols = FilterCut::NumCols(problem.geometry, form);
  if (!FilterCut::PutsInputsInLanes(form) && ServesPairs(problem, kernels)) {
    return {kernels.Gemm<BFloat16Pair>(), rows, cols};
  }
  return problem.dtype == DType::kFloat64 ? TileCounts(kernels.Gemm<double>(), rows, cols)
                                          : TileCounts(kernels.Gemm<float>(), rows, cols);
}

Work CountWork(const Problem& problem, const FilterCut& cut, const TileCounts& tiles) {
  return Counter(problem, cut, tiles).All();
}

}  // namespace convgrad
