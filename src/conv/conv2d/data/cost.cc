#include "conv/conv2d/data/cost.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "conv/conv2d/data/count_work.h"
#include "conv/conv2d/data/form_costs.h"
#include "conv/gemm/tiles.h"

namespace convgrad {
namespace {

double Number(auto value) {
  return static_cast<double>(value);
}
class Count {
 public:
  Count(const Problem& problem, LanesForm form, int64_t vector_bytes)
      : costs_(CostsOf(form)),
        planar_(problem.data_format == DataFormat::kNCHW),
        wide_(vector_bytes == int64_t{kAlignment}),
        number_cycles_(problem.dtype == DType::kFloat64 ? 2 : 1) {}

  double cycles() const { return cycles_; }

  template <class Stored, class Element>
  void Add(const ChannelLanesCut<Stored, Element>& plan);
  template <class Stored, class Element>
  void Add(const PixelLanesCut<Stored, Element>& plan);
  template <class Stored, class Element>
  void Add(const ImageLanesCut<Stored, Element>& plan);

 private:
  // What a tile sums up.
  struct Sums {
    double terms, segments, blocks;
  };

  void AddIn(double numbers) {
    cycles_ += (planar_ ? costs_.planar_in : costs_.in) * numbers * number_cycles_;
  }
  void AddOut(double numbers) {
    cycles_ += (planar_ ? costs_.planar_out : costs_.out) * numbers * number_cycles_;
  }
  void AddFilter(double numbers) { cycles_ += costs_.filter * numbers * number_cycles_; }

  // The sums of pixels that meet so many rows and columns of taps. Taps that follow each other in
  // the source and in the packed filter are one segment.
  static Sums SumsOf(const TapSum& sum, const TapPhase& phase, int64_t row_taps, int64_t col_taps,
                     bool joined) {
    const double taps = Product(row_taps, col_taps);
    const double blocks = Number(phase.blocks.size());
    return {taps * Number(sum.source_c), std::max(joined ? Number(row_taps) : taps, blocks),
            blocks};
  }
  static bool NeighboursFollow(const AxisPhase& cols) {
    return cols.offsets.empty() ||
           cols.offsets.back() - cols.offsets.front() < std::ssize(cols.offsets);
  }

  void AddTiles(double count, int64_t rows, int64_t vectors, bool halves, const Sums& sums);
  template <class Element>
  void AddMatrices(const IndirectGemmKernels<Element>& kernels, double times, int64_t num_rows,
                   int64_t num_cols, const Sums& sums);
  template <class Element>
  void AddPanels(const IndirectGemmKernels<Element>& kernels, double times, int64_t num_rows,
                 int64_t num_cols, const Panels& panels, const Sums& sums);
  template <class Plan>
  void AddClasses(const Plan& plan, double chunks, bool contiguous);

  const FormCosts& costs_;
  const bool planar_, wide_;
  const double number_cycles_;
  double cycles_ = 0;
};

double SourceNumbers(const TapSum& sum) {
  return Product(sum.batch, sum.groups, sum.source_h, sum.source_w, sum.source_c);
}
void Count::AddTiles(double count, int64_t rows, int64_t vectors, bool halves, const Sums& sums) {
  constexpr double kLatency = 4;  // of a multiply-add, for each term
  const double all = Product(rows, vectors);
  const double added = halves ? all - 0.5 * Number(rows) : all;
  const double term = std::max(wide_ ? added : added / 2, kLatency);
  cycles_ += count * sums.terms *
             ((wide_ ? costs_.term : costs_.narrow_term) * term +
              (wide_ ? costs_.operand : costs_.narrow_operand) * Number(rows + vectors));
  cycles_ += count * (costs_.segment * sums.segments + costs_.vector * all * sums.blocks);
}

// `times` matrices of so many rows and columns, each a call, by tiles of the indirect micro-kernel.
template <class Element>
void Count::AddMatrices(const IndirectGemmKernels<Element>& kernels, double times, int64_t num_rows,
                        int64_t num_cols, const Sums& sums) {
  const auto tiles = TilesOfWidth(kernels, num_cols);
  const int64_t rows = tiles.front().rows, lanes = kernels.lanes;
  const int64_t vectors = tiles.front().cols / lanes, rest = num_rows % rows;
  // The kernel computes half a vector where that is enough.
  const bool halves = wide_ && vectors <= 3 && num_cols <= vectors * lanes - lanes / 2;
  AddTiles(times * Number(num_rows / rows), rows, vectors, halves, sums);
  if (rest > 0) AddTiles(times, SmallestTile(tiles, rest).rows, vectors, halves, sums);
  cycles_ += times * costs_.call;
}

template <class Element>
void Count::AddPanels(const IndirectGemmKernels<Element>& kernels, double times, int64_t num_rows,
                      int64_t num_cols, const Panels& panels, const Sums& sums) {
  if (panels.count > 1) {
    AddMatrices(kernels, times * Number(panels.count - 1), num_rows, panels.cols, sums);
  }
  AddMatrices(kernels, times, num_rows, panels.ColsOf(panels.count - 1, num_cols), sums);
}

// All classes of pixels, in so many chunks, times the channels of every group.
template <class Plan>
void Count::AddClasses(const Plan& plan, double chunks, bool contiguous) {
  const TapSum& sum = plan.sum;
  for (const TapPhase& phase : plan.phases) {
    const bool joined = contiguous && NeighboursFollow(*phase.cols);
    for (const AxisClass& rows : phase.rows->classes) {
      for (const AxisClass& cols : phase.cols->classes) {
        const double pixels = Product(sum.batch, rows.end - rows.begin, cols.end - cols.begin);
        const double parts = std::min(chunks, pixels);
        AddPanels(plan.kernels, parts * Number(sum.groups),
                  static_cast<int64_t>(std::ceil(pixels / parts)), sum.result_c, plan.panels,
                  SumsOf(sum, phase, rows.tap_end - rows.tap_begin, cols.tap_end - cols.tap_begin,
                         joined));
      }
    }
  }
  AddFilter(Product(sum.groups, plan.panels.count, plan.PanelElements()));
}

template <class Stored, class Element>
void Count::Add(const ChannelLanesCut<Stored, Element>& plan) {
  const TapSum& sum = plan.sum;
  const double pixels = Product(sum.batch, sum.result_h, sum.result_w);
  const double chunks = std::max(Number(plan.stages.all.size()),
                                 std::ceil(pixels / Number(plan.stages.chunk_pixels)));
  if (plan.source_staged) AddIn(SourceNumbers(sum));
  if (plan.result_staged) {
    constexpr double kZero = 0.3;
    const KeptPixels& kept = plan.result_kept;
    const double all = Product(sum.batch, sum.groups, sum.result_c, kept.rows.size, kept.cols.size);
    AddOut(ResultNumbers(sum));
    cycles_ += kZero * (all - ResultNumbers(sum)) * number_cycles_;
  }
  if (sum.groups > 1 && !plan.groups_apart) {
    const int64_t bytes = sum.source_c * int64_t{sizeof(Element)};
    cycles_ += costs_.line * Product(sum.batch, sum.groups, sum.source_h, sum.source_w,
                                     CeilDiv(bytes, int64_t{kAlignment}));
  }
  AddClasses(plan, chunks, /*contiguous=*/sum.groups == 1 || plan.groups_apart);
}

template <class Stored, class Element>
void Count::Add(const PixelLanesCut<Stored, Element>& plan) {
  const TapSum& sum = plan.sum;
  const PlaneAxis &rows = plan.rows, &cols = plan.cols;
  const double bands = Product(sum.batch, plan.parts.count);
  constexpr double kFirstCache = 32 << 10, kFarLine = 4.5;
  for (const TapPhase& phase : plan.phases) {
    const int64_t pixels = (plan.parts.positions - 1) * cols.extent + phase.cols->count;
    const Panels panels = CutPanels(plan.kernels, pixels, plan.panel_cols);
    const double calls = bands * Number(sum.groups);
    const Sums sums = SumsOf(sum, phase, std::ssize(phase.rows->taps), std::ssize(phase.cols->taps),
                             /*joined=*/sum.source_c == 1);
    AddPanels(plan.kernels, calls, sum.result_c, pixels, panels, sums);
    cycles_ += costs_.part * calls;
    // What the first-level cache does not hold is read from the next one by every block of rows;
    // the multiply-adds of that line's term hide a part of it.
    const double lines = Product(panels.cols, sizeof(Element)) / Number(kAlignment);
    if (sums.terms * lines * Number(kAlignment) > kFirstCache) {
      const auto tiles = TilesOfWidth(plan.kernels, panels.cols);
      const double tile_vectors = Product(std::min<int64_t>(tiles.front().rows, sum.result_c),
                                          CeilDiv(panels.cols, plan.kernels.lanes));
      const double multiply_adds = wide_ ? tile_vectors : tile_vectors / 2;
      cycles_ += std::max(0.0, kFarLine * lines - multiply_adds) * calls *
                 Product(plan.row_blocks, panels.count) * sums.terms;
    }
  }
  if (!plan.source_in_place) {
    const double numbers =
        bands * Product(rows.residues.size(), cols.residues.size(),
                        plan.PlaneRows(plan.parts.positions), cols.extent, plan.source.c);
    if (planar_ && cols.step > 1) {
      cycles_ += costs_.far_in * numbers * number_cycles_;
    } else {
      AddIn(numbers);
    }
  }
  if (!plan.result_in_place) {
    if (planar_ && sum.col_phases.size() > 1) {
      cycles_ += costs_.far_out * ResultNumbers(sum) * number_cycles_;
    } else {
      AddOut(ResultNumbers(sum));
    }
    const double rows_stored = Product(sum.batch, sum.groups, sum.result_h);
    cycles_ += costs_.run * rows_stored * (planar_ ? Number(sum.result_c) : 1);
  }
  AddFilter(Number(plan.FilterElements()));
}

template <class Stored, class Element>
void Count::Add(const ImageLanesCut<Stored, Element>& plan) {
  const TapSum& sum = plan.sum;
  const ImageLanesParts& cuts = plan.parts;
  const double lane_groups = Number(cuts.bands.lane_groups);
  const double positions = Number(cuts.bands.positions);
  const double strips = std::ceil(positions / Number(cuts.strip_rows));
  const bool joined = cuts.chunk_groups == 1;
  // How often a part of an axis is visited that is cut into so many pieces.
  const auto pieces = [](double cuts_of_all, double part, double all) {
    return std::clamp(cuts_of_all * part / all, 1.0, part);
  };
  const auto add_class = [&](const TapPhase& phase, const AxisClass& rows, const AxisClass& cols) {
    const double num_rows = Number(rows.end - rows.begin), num_cols = Number(cols.end - cols.begin);
    const Sums sums =
        SumsOf(sum, phase, rows.tap_end - rows.tap_begin, cols.tap_end - cols.tap_begin,
               joined && NeighboursFollow(*phase.cols));
    if (cuts.slides) {
      constexpr double kSliding = 1.1;
      cycles_ += kSliding * (wide_ ? 1 : 0.5) * lane_groups * Number(sum.groups) * num_rows *
                 num_cols * sums.terms;
      return;
    }
    const double visits = pieces(strips, num_rows, positions) *
                          pieces(Number(cuts.col_blocks), num_cols, Number(cuts.col_positions));
    const int64_t pixels = static_cast<int64_t>(std::ceil(num_rows * num_cols / visits));
    const double times = lane_groups * visits * Product(sum.groups, plan.channel_blocks);
    const int64_t tile_rows = plan.tiles.front().rows, rest = pixels % tile_rows;
    AddTiles(times * Number(pixels / tile_rows), tile_rows, plan.tile_cols, /*halves=*/false, sums);
    if (rest > 0) {
      int64_t smallest = tile_rows;
      for (const auto& tile : plan.tiles) {
        if (tile.rows >= rest) smallest = tile.rows;
      }
      AddTiles(times, smallest, plan.tile_cols, /*halves=*/false, sums);
    }
    cycles_ += costs_.call * lane_groups * visits * Number(cuts.num_chunks);
  };
  for (const TapPhase& phase : plan.phases) {
    for (const AxisClass& cols : phase.cols->classes) {
      if (!cuts.whole_images()) {
        add_class(phase, {0, cuts.bands.positions, 0, std::ssize(phase.rows->taps)}, cols);
        continue;
      }
      for (const AxisClass& rows : phase.rows->classes) add_class(phase, rows, cols);
    }
  }
  // Places that hold no image are copied too.
  const int64_t reach = cuts.rows.high - cuts.rows.low + 1;
  const double source_rows = cuts.whole_images()
                                 ? Number(sum.source_h)
                                 : (positions - 1) * Number(cuts.rows.step) + Number(reach);
  const double result_rows =
      cuts.whole_images() ? Number(sum.result_h) : positions * Number(plan.phases[0].rows->step);
  const double overlap = Product(cuts.col_blocks - 1, cuts.cols.high - cuts.cols.low);
  const double lanes = lane_groups * Number(plan.kernels.lanes);
  const double in =
      lanes * source_rows * (Number(sum.source_w) + overlap) * Product(sum.groups, sum.source_c);
  const double out = lanes * result_rows * Product(sum.result_w, sum.groups, sum.result_c);
  const auto far = [&](int64_t channels) {
    constexpr int64_t kFar = 4096;  // bytes from pixel to pixel: each on a page of its own
    const int64_t bytes = plan.kernels.lanes * int64_t{sizeof(Element)};
    return planar_ && cuts.chunk_groups * channels * bytes >= kFar;
  };
  if (far(sum.source_c)) {
    cycles_ += costs_.far_in * in * number_cycles_;
  } else {
    AddIn(in);
  }
  if (far(sum.result_c)) {
    cycles_ += costs_.far_out * out * number_cycles_;
  } else {
    AddOut(out);
  }
  const bool whole_rows = cuts.whole_images() && cuts.col_blocks == 1;
  const double rows = whole_rows ? strips : source_rows * Number(cuts.col_blocks);
  const double runs = planar_                ? rows * Number(plan.source.c)
                      : cuts.num_chunks == 1 ? rows
                                             : source_rows * Product(sum.source_w, cuts.num_chunks);
  cycles_ += costs_.run * lane_groups * runs;
  // Rows of bands, plane after plane: the next row's lines are gone where a block's part of a row
  // of all planes, as it lies and packed, is more than the second-level cache.
  constexpr double kCached = 768 << 10, kLostLine = 25;
  const double row_bytes = Product(sum.source_w, sizeof(Element)) / Number(cuts.col_blocks);
  const double lines = Number(plan.kernels.lanes) * (row_bytes / Number(kAlignment) + 1);
  const double row_of_all =
      Number(plan.source.c) * (lines * Number(kAlignment) +
                               Number(plan.kernels.lanes) * row_bytes / Number(cuts.num_chunks));
  if (planar_ && !cuts.whole_images() && row_of_all > kCached) {
    cycles_ += kLostLine * lane_groups * runs * lines;
  }
  AddFilter(Number(plan.FilterElements()));
}

}  // namespace

double CyclesOf(const Problem& problem, const KernelTable& kernels, LanesForm form, bool in_pairs) {
  Count count(problem, form, kernels.vector_bytes);
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const auto add = [&](auto element) {
      using Element = typename decltype(element)::Type;
      switch (form) {
        case LanesForm::kImages:
          return count.Add(ImageLanesCut<Stored, Element>(problem, kernels, 1));
        case LanesForm::kPixels:
          return count.Add(PixelLanesCut<Stored, Element>(problem, kernels, 1));
        case LanesForm::kChannels:
          return count.Add(ChannelLanesCut<Stored, Element>(problem, kernels, 1));
      }
    };
    if constexpr (std::is_same_v<Stored, BFloat16>) {
      if (in_pairs) return add(TypeTag<BFloat16Pair>{});
    }
    add(TypeTag<ComputeType<Stored>>{});
  });
  return count.cycles();
}

}  // namespace convgrad
