#include "conv/precise/compensated_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "conv/precise/compensated_terms.h"
#include "conv/precise/compensated_tile.h"

namespace convgrad {
namespace {

// Sums that a piece holds, about.
constexpr int64_t kPieceElements = 1 << 14;

// The result as a matrix: a row for each pixel of all images, or each (tap, input channel) of a
// filter; a column for each channel.
struct ResultMatrix {
  explicit ResultMatrix(const Problem& problem) {
    const ConvGeometry& g = problem.geometry;
    const Direction direction = InfoOf(problem.op).direction;
    channels_inside = problem.data_format == DataFormat::kNHWC;
    switch (direction) {
      case Direction::kForward: plane = g.out_h * g.out_w; break;
      case Direction::kBackpropInput: plane = g.in_h * g.in_w; break;
      case Direction::kBackpropFilter: plane = g.kernel_h * g.kernel_w * g.group_in_c; break;
    }
    rows = direction == Direction::kBackpropFilter ? plane : plane * g.batch;
    channels_inside |= direction == Direction::kBackpropFilter;
    cols = direction == Direction::kBackpropInput ? g.in_c : g.out_c;
    group_cols = direction == Direction::kBackpropInput ? g.group_in_c : g.group_out_c;
  }
  int64_t ElementAt(int64_t row, int64_t col) const {
    if (channels_inside) return row * cols + col;
    return (row / plane * cols + col) * plane + row % plane;
  }

  int64_t rows, cols, group_cols;
  int64_t plane = 0;     // rows of an image
  bool channels_inside;  // columns are neighbours in memory, not rows
};

// Rows and columns of the result that are summed and shown together.
struct Piece {
  Range rows, cols;
};

// How the matrix is cut: enough pieces for all threads, else large ones. What is cut where changes
// no sum.
class Pieces {
 public:
  Pieces(const ResultMatrix& matrix, int num_threads) : matrix_(matrix) {
    cols_ = std::min(matrix.cols, kTileCols);
    rows_ = std::clamp<int64_t>(kPieceElements / cols_, 1, matrix.rows);
    const int64_t wanted = 4 * num_threads;
    if (count() < wanted) rows_ = std::max(std::min(rows_, kTileRows / 2), matrix.rows / wanted);
    rows_ = std::clamp<int64_t>(rows_, 1, matrix.rows);
    if (count() < wanted) {
      const int64_t parts = CeilDiv(wanted, CeilDiv(matrix.rows, rows_));
      cols_ = std::min(cols_, std::max<int64_t>(8, CeilDiv(matrix.cols, parts)));
    }
  }
  int64_t count() const { return CeilDiv(matrix_.rows, rows_) * CeilDiv(matrix_.cols, cols_); }
  Piece operator[](int64_t i) const {
    const int64_t across = CeilDiv(matrix_.cols, cols_);
    const int64_t row = i / across * rows_, col = i % across * cols_;
    return {{row, std::min(row + rows_, matrix_.rows)}, {col, std::min(col + cols_, matrix_.cols)}};
  }

 private:
  const ResultMatrix& matrix_;
  int64_t rows_, cols_;
};

// The sums of a piece, in the result's order.
class PieceSums {
 public:
  PieceSums(const ResultMatrix& matrix, const Piece& piece)
      : matrix_(matrix),
        piece_(piece),
        sums_(static_cast<size_t>(piece.rows.size() * piece.cols.size())) {}

  ElementSum& At(int64_t row, int64_t col) {
    const int64_t i = row - piece_.rows.begin, j = col - piece_.cols.begin;
    return sums_[static_cast<size_t>(matrix_.channels_inside ? i * piece_.cols.size() + j
                                                             : j * piece_.rows.size() + i)];
  }
  void Show(const CompensatedRunner::Visit& visit) const {
    if (!matrix_.channels_inside) return ShowColumns(visit);
    const auto cols = static_cast<size_t>(piece_.cols.size());
    const bool is_whole = piece_.cols.size() == matrix_.cols;
    const size_t run = is_whole ? sums_.size() : cols;
    for (size_t at = 0; at < sums_.size(); at += run) {
      const int64_t row = piece_.rows.begin + static_cast<int64_t>(at / cols);
      visit(matrix_.ElementAt(row, piece_.cols.begin), std::span(sums_).subspan(at, run));
    }
  }

 private:
  // Column by column, image by image.
  void ShowColumns(const CompensatedRunner::Visit& visit) const {
    for (int64_t j = 0; j < piece_.cols.size(); ++j) {
      for (int64_t row = piece_.rows.begin; row < piece_.rows.end;) {
        const int64_t end = std::min(piece_.rows.end, (row / matrix_.plane + 1) * matrix_.plane);
        const int64_t at = j * piece_.rows.size() + row - piece_.rows.begin;
        visit(matrix_.ElementAt(row, piece_.cols.begin + j),
              std::span(sums_).subspan(static_cast<size_t>(at), static_cast<size_t>(end - row)));
        row = end;
      }
    }
  }

  const ResultMatrix& matrix_;
  const Piece piece_;
  std::vector<ElementSum> sums_;
};

// The rows of a tile, group by group of the piece's columns.
template <class Stored>
void SumRows(const ResultMatrix& matrix, const TermPacker<Stored>& packer,
             const CompensatedKernels& kernels, std::span<const int64_t> rows, const Range& cols,
             TileSums& sums, PieceSums& shown) {
  int64_t count_of_row[kTileRows];
  const std::span<int64_t> counts = std::span(count_of_row).first(rows.size());
  for (int64_t col = cols.begin; col < cols.end;) {
    const int64_t group = col / matrix.group_cols;
    const Range tile = {col, std::min(cols.end, (group + 1) * matrix.group_cols)};
    sums.Begin(kernels, static_cast<int64_t>(rows.size()), tile.size());
    packer.Pack(rows, group, tile, sums, counts);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t j = 0; j < tile.size(); ++j) {
        shown.At(rows[i], col + j) = sums.At(static_cast<int64_t>(i), j, counts[i]);
      }
    }
    col = tile.end;
  }
}

// Rows of one key are taken together, as many as a tile has.
template <class Stored>
void SumPiece(const ResultMatrix& matrix, const TermPacker<Stored>& packer,
              const CompensatedKernels& kernels, const Piece& piece, TileSums& sums,
              const CompensatedRunner::Visit& visit) {
  std::vector<std::pair<int64_t, int64_t>> keyed;
  for (int64_t row = piece.rows.begin; row < piece.rows.end; ++row) {
    keyed.emplace_back(packer.KeyOf(row), row);
  }
  if (!std::ranges::is_sorted(keyed)) std::ranges::sort(keyed);
  PieceSums shown(matrix, piece);
  int64_t rows[kTileRows];
  for (size_t begin = 0; begin < keyed.size();) {
    size_t count = 0;
    for (; count < kTileRows && begin + count < keyed.size(); ++count) {
      if (keyed[begin + count].first != keyed[begin].first) break;
      rows[count] = keyed[begin + count].second;
    }
    SumRows(matrix, packer, kernels, std::span<const int64_t>(rows, count), piece.cols, sums,
            shown);
    begin += count;
  }
  shown.Show(visit);
}

}  // namespace

CompensatedRunner::CompensatedRunner(const Problem& problem, const KernelTable& kernels)
    : problem_(problem), kernels_(kernels) {}

void CompensatedRunner::ForEachPiece(const void* first, const void* second,
                                     const Parallel& parallel, const Visit& visit) const {
  const ResultMatrix matrix(problem_);
  const bool has_terms = problem_.ValidTerms() > 0;
  if (matrix.rows == 0 || matrix.cols == 0) return;
  VisitFloat(problem_.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const auto packer = MakePacker<Stored>(problem_, first, second);
    const Pieces pieces(matrix, parallel.num_threads());
    PerThread<TileSums> sums(parallel);
    parallel.For(pieces.count(), [&](int64_t i) {
      if (!has_terms) return PieceSums(matrix, pieces[i]).Show(visit);
      SumPiece(matrix, *packer, kernels_.compensated, pieces[i], sums.Own(), visit);
    });
  });
}

int64_t CompensatedRunner::ScratchBytes(int num_threads) {
  constexpr int64_t kOfPiece = 2 * kPieceElements * static_cast<int64_t>(sizeof(ElementSum));
  return num_threads * (TileSums::Bytes() + kOfPiece);
}

std::string CompensatedRunner::DescribeTiles(const Problem& problem) {
  const ResultMatrix matrix(problem);
  return fmt::format("{}x{} sums, {} terms at a time", std::min(kTileRows, matrix.rows),
                     std::min(kTileCols, matrix.group_cols), kPackedTerms);
}

}  // namespace convgrad
