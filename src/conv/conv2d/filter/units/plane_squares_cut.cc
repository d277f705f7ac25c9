#include "conv/conv2d/filter/units/plane_squares_cut.h"

#include <fmt/format.h>

#include <cmath>

#include "conv/move/stream_result.h"

namespace convgrad {

template <class Compute>
PlaneSquaresCut<Compute>::PlaneSquaresCut(const Problem& problem, const KernelTable& kernels,
                                          int num_threads)
    : geometry(problem.geometry),
      wide(kernels.vector_bytes >= 64),
      fetches(LeaveTheCaches(problem.OperandBytes(), num_threads)),
      rows_are_inputs(geometry.group_in_c <= geometry.group_out_c),
      rows(rows_are_inputs ? Planes{geometry.in_c, geometry.group_in_c}
                           : Planes{geometry.out_c, geometry.group_out_c}),
      cols(rows_are_inputs ? Planes{geometry.out_c, geometry.group_out_c}
                           : Planes{geometry.in_c, geometry.group_in_c}),
      lanes(kernels.PlaneSquares<Compute>().lanes),
      tile(ChooseTile(kernels.PlaneSquares<Compute>())),
      row_tiles(CeilDiv(rows.group_channels, int64_t{tile.rows})),
      panels(CeilDiv(cols.group_channels, int64_t{tile.cols})),
      blocks(PixelBlocks(geometry.batch, geometry.out_h, geometry.out_w)) {}

// The tile that takes the fewest cycles for all of a group: a term of a vector of columns takes
// three to transpose and half a one for each row, and no less than a sum waits for its last term.
template <class Compute>
PlaneSquareTile<Compute> PlaneSquaresCut<Compute>::ChooseTile(
    const PlaneSquareKernels<Compute>& kernels) const {
  PlaneSquareTile<Compute> choice{};
  double least = HUGE_VAL;
  for (const PlaneSquareTile<Compute>& one : kernels.tiles) {
    const int64_t vectors = one.cols / kernels.lanes;
    const double term = std::max(4.0, Product(vectors) * (3 + 0.5 * one.rows));
    const double cycles = term * Product(CeilDiv(rows.group_channels, int64_t{one.rows}),
                                         CeilDiv(cols.group_channels, int64_t{one.cols}));
    if (cycles >= least) continue;
    least = cycles;
    choice = one;
  }
  return choice;
}

template <class Compute>
auto PlaneSquaresCut<Compute>::PlaceOf(int64_t unit) const -> Place {
  const int64_t row_tile = unit / panels;
  const int64_t first_row = row_tile % row_tiles * tile.rows;
  const int64_t first_col = unit % panels * tile.cols;
  return {row_tile / row_tiles, first_row, first_col,
          std::min<int64_t>(tile.rows, rows.group_channels - first_row),
          std::min<int64_t>(tile.cols, cols.group_channels - first_col)};
}

template <class Compute>
Work PlaneSquaresCut<Compute>::CountWork() const {
  constexpr double kInRegisters = 0.3;  // of what it takes to transpose numbers into memory
  const double units = Product(NumUnits()), terms = units * Product(geometry.batch, Pixels());
  const int64_t sums = tile.rows * (tile.cols / lanes);
  Work work;
  work.Add(WorkKind::kTransposed,
           kInRegisters * terms * Product(tile.cols, int64_t{sizeof(Compute)}) / 4);
  work.Add(WorkKind::kGemmFma, terms * Product(std::max(sums, WaitingSlots(wide))));
  work.Add(WorkKind::kGemmSingle, terms * Product(sums));
  work.Add(WorkKind::kCall, units * Product(blocks.size()));
  work.Add(WorkKind::kFold, units * Product(sums, std::ssize(blocks) + NumRuns() + 1));
  work.Add(WorkKind::kTask, units * Product(NumRuns()));
  return work;
}

template <class Compute>
std::string PlaneSquaresCut<Compute>::Tiles() const {
  return fmt::format("{}x{} {} x {} channels, {} panels, {} blocks in {} runs", tile.rows,
                     tile.cols, rows_are_inputs ? "input" : "output",
                     rows_are_inputs ? "output" : "input", geometry.groups * panels, blocks.size(),
                     NumRuns());
}

template struct PlaneSquaresCut<float>;
template struct PlaneSquaresCut<double>;

}  // namespace convgrad
