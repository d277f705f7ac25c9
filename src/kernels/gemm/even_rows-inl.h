// Tiles of rows at even distances; see EvenRows. Included once per target.
//
// With few terms a tile has little to compute, and what the indirect tiles do besides (addresses of
// rows and results one by one, what to fetch, sums to keep) takes as long. Here addresses are sums,
// few enough for registers.
#if defined(CONVGRAD_KERNELS_EVEN_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_EVEN_ROWS_INL_H_
#undef CONVGRAD_KERNELS_EVEN_ROWS_INL_H_
#else
#define CONVGRAD_KERNELS_EVEN_ROWS_INL_H_
#endif

#include <type_traits>

#include "kernels/gemm/indirect_gemm.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/gemm/tile_accumulators-inl.h"
#include "kernels/gemm/tile_sums-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

template <class Element, int kVectors>
class EvenTile {
 public:
  static int64_t Run(const GemmTileArgs<Element>& args, const EvenRows& rows) {
    const EvenTile tile(args);
    const Element* a = args.a + rows.a_row;
    int64_t c_row = rows.c_row;
    const int64_t whole = rows.count - rows.count % kRows;
    for (int64_t i = 0; i < whole; i += kRows) {
      tile.RunRows(args, a, rows.a_step, c_row, rows.c_step);
      a += kRows * rows.a_step;
      c_row += kRows * rows.c_step;
    }
    return whole;
  }

 private:
  using D = hn::ScalableTag<ComputeType<Element>>;
  using Times = Multiplier<Element, D>;
  using Wanted = WantedColumns<Element, D, kVectors, false>;

  // Sums, a term's columns and a factor fit the registers, and addresses of rows theirs. The
  // tallest indirect tile of this width has no fewer rows.
  static constexpr int FewRows() {
    if (kVectors == 1) return HWY_TARGET == HWY_SCALAR ? 6 : 10;
    return kVectors == 2 && HWY_TARGET != HWY_SCALAR ? 6 : 4;
  }
  // Single vectors of float are many rows in parts of some, whose addresses are found once for
  // several terms, which lie side by side; see kTakesLines of Tile.
  static constexpr bool kTakesLines =
      HWY_TARGET == HWY_AVX3 && kVectors == 1 && std::is_same_v<Element, float>;
  static constexpr int kRowsAtOnce = 7, kOfLine = 16, kFew = 4;
  static constexpr int ManyRows() { return kTakesLines ? 2 * kRowsAtOnce : kVectors == 4 ? 6 : 8; }
  static constexpr int kRows = kManyRegisters ? ManyRows() : FewRows();
  using Accumulators = TileAccumulators<Element, kRows, kVectors, false>;

  // The addresses where a tile's rows begin.
  class Rows {
   public:
    HWY_INLINE Rows(const Element* first, int64_t step) : first_(first), step_(step) {}
    HWY_INLINE const Element* At(int i) const { return first_ + i * step_; }

   private:
    const Element* first_;
    int64_t step_;
  };

  explicit EvenTile(const GemmTileArgs<Element>& args)
      : target_{args.c, args.narrowed, args.stream},
        last_cols_(args.num_cols - (kVectors - 1) * static_cast<int64_t>(hn::Lanes(D()))),
        wanted_(args.num_cols, args.masked) {}

  HWY_INLINE void RunRows(const GemmTileArgs<Element>& args, const Element* a, int64_t a_step,
                          int64_t c_row, int64_t c_step) const {
    const Rows rows(a, a_step);
    Accumulators acc;
    if (args.num_blocks > 1) return RunBlocks(args, rows, c_row, c_step, acc);
    AddSegments(args, args.segments, args.segments + args.block_ends[0], rows, acc);
    acc.Finish();
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) StoreRow(acc.whole[i], c_row + i * c_step);
  }

  HWY_INLINE void RunBlocks(const GemmTileArgs<Element>& args, const Rows& rows, int64_t c_row,
                            int64_t c_step, Accumulators& acc) const {
    WaitingBlocks<Element, kRows, kVectors> blocks(args.sums, false);
    const GemmSegment* begin = args.segments;
    for (int64_t block = 0; block < args.num_blocks; ++block) {
      const GemmSegment* const end = args.segments + args.block_ends[block];
      AddSegments(args, begin, end, rows, acc);
      begin = end;
      acc.StoreAll(blocks.Next());
    }
    int64_t c_rows[kRows];
    for (int i = 0; i < kRows; ++i) c_rows[i] = c_row + i * c_step;
    FinishRows(args, c_rows, kRows, blocks.sums());
  }

  // A block's sums.
  HWY_INLINE void AddSegments(const GemmTileArgs<Element>& args, const GemmSegment* segment,
                              const GemmSegment* end, const Rows& rows, Accumulators& acc) const {
    acc.SetZero();
    for (; segment != end; ++segment) {
      const Element* b = args.b + segment->b;
      int64_t at = segment->a;
      const int64_t a_end = at + segment->length;
      if constexpr (kTakesLines) {
        while (at + kOfLine <= a_end) AddSeveral<kOfLine>(rows, at, b, args.b_step, acc);
        while (at + kFew <= a_end) AddSeveral<kFew>(rows, at, b, args.b_step, acc);
        while (at < a_end) AddSeveral<1>(rows, at, b, args.b_step, acc);
      } else {
        for (; at < a_end; ++at, b += args.b_step) AddTerm(rows, at, b, acc);
      }
    }
  }

  // Adds so many terms of single vectors; `at` and `b` go on to the next.
  template <int kCount>
  HWY_INLINE void AddSeveral(const Rows& rows, int64_t& at, const Element*& b, int64_t b_step,
                             Accumulators& acc) const {
    typename Times::V columns[kCount];
#pragma GCC unroll 16
    for (int t = 0; t < kCount; ++t, b += b_step) columns[t] = wanted_.Load(0, b);
#pragma GCC unroll 2
    for (int first = 0; first < kRows; first += kRowsAtOnce) {
      const Element* row[kRowsAtOnce];
#pragma GCC unroll 16
      for (int i = 0; i < kRowsAtOnce; ++i) row[i] = rows.At(first + i) + at;
#pragma GCC unroll 16
      for (int t = 0; t < kCount; ++t) {
#pragma GCC unroll 16
        for (int i = 0; i < kRowsAtOnce; ++i) {
          hn::Vec<D>& sum = acc.whole[first + i][0];
          sum = Times::AddTimes(row[i] + t, columns[t], sum);
        }
      }
    }
    at += kCount;
  }

  HWY_INLINE void AddTerm(const Rows& rows, int64_t at, const Element* b, Accumulators& acc) const {
    constexpr int64_t kLanes = hn::MaxLanes(D());
    typename Times::V columns[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      columns[v] = wanted_.Load(v, b + v * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#if HWY_TARGET == HWY_AVX3
      if constexpr (kVectors == 1) {
        acc.whole[i][0] = Times::AddTimes(rows.At(i) + at, columns[0], acc.whole[i][0]);
        continue;
      }
#endif
      const auto factor = Times::Broadcast(rows.At(i) + at);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        acc.whole[i][v] = Times::Add(factor, columns[v], acc.whole[i][v]);
      }
    }
  }

  HWY_INLINE void StoreRow(const hn::Vec<D> (&row)[kVectors], int64_t at) const {
    const D d;
    constexpr int64_t kLanes = hn::MaxLanes(d);
#pragma GCC unroll 16
    for (int v = 0; v + 1 < kVectors; ++v) target_.StoreWhole(d, row[v], at + v * kLanes);
    const int64_t last = at + (kVectors - 1) * kLanes;
    if (last_cols_ == kLanes) {
      target_.StoreWhole(d, row[kVectors - 1], last);
    } else {
      target_.StorePart(d, row[kVectors - 1], last, last_cols_);
    }
  }

  const TileTarget<Element> target_;
  const int64_t last_cols_;  // of the last vector
  const Wanted wanted_;
};

template <class Element>
int64_t RunEvenRows(const GemmTileArgs<Element>& args, const EvenRows& rows) {
  constexpr int kMostVectors = kManyRegisters ? 4 : 3;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<ComputeType<Element>>()));
  switch ((args.num_cols + lanes - 1) / lanes) {
    case 1: return EvenTile<Element, 1>::Run(args, rows);
    case 2: return EvenTile<Element, 2>::Run(args, rows);
    case 3: return EvenTile<Element, 3>::Run(args, rows);
    default: return EvenTile<Element, kMostVectors>::Run(args, rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
