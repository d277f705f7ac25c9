// One size of tile of the indirect matrix micro-kernel; see indirect_gemm.h. Included once per
// target.
//
// The accumulators of a whole tile stay in registers: every loop over them is unrolled, also those
// that set and store, or GCC keeps the array in memory. Segments, blocks and tiles are loops inside
// the kernel, because entering it anew for each filter row cost more than half of its speed.
#if defined(CONVGRAD_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_GEMM_TILE_INL_H_
#undef CONVGRAD_KERNELS_GEMM_TILE_INL_H_
#else
#define CONVGRAD_KERNELS_GEMM_TILE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/gemm/ahead.h"
#include "kernels/gemm/indirect_gemm.h"
#include "kernels/gemm/multiplier-inl.h"
#include "kernels/gemm/tile_accumulators-inl.h"
#include "kernels/gemm/tile_sums-inl.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// A tile of kRows by kVectors. Where no more than half of the last vector's columns are wanted,
// which is kEndsInHalf, that vector is computed as one of half the size: half the work for
// processors that split 512 bits, no more for others. In memory it stays a whole one, its other
// half zeros.
template <class Element, int kRows, int kVectors, bool kEndsInHalf>
class Tile {
 public:
  static void Run(const GemmTileArgs<Element>& args) {
    const bool in_pairs = std::is_same_v<Element, float> && args.in_pairs;
    in_pairs ? RunPanels<std::is_same_v<Element, float>>(args) : RunPanels<false>(args);
  }

 private:
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
  using Half = hn::Half<D>;
  using Times = Multiplier<Element, D>;
  using TimesHalf = Multiplier<Element, Half>;
  static constexpr int kWhole = kEndsInHalf ? kVectors - 1 : kVectors;
  // Long narrow tiles of short vectors have no time for another load with every term: they fetch
  // for several, and only where what they fetch lies beyond the caches.
  static constexpr bool kIsNarrow = kRows > 8 && kVectors == 1;
  static constexpr bool kFillsLines = hn::MaxLanes(D()) * sizeof(T) >= 64;
  static constexpr bool kFetches = !kIsNarrow || kFillsLines;
  static constexpr bool kFetchesFar = !kFetches && std::is_same_v<Element, float>;

  // Panels side by side, which are of whole vectors, have code of their own where tiles are small:
  // what they have little of to compute, a call for each would outweigh.
  static constexpr bool kJoinsPanels =
      !kEndsInHalf && kRows <= 8 && std::is_same_v<Element, float> && HWY_TARGET != HWY_SCALAR;

  // A vector a row, or half a one, takes so little time that finding the addresses of many rows,
  // which are more than registers, would take longer: half vectors take some terms at once, and
  // float takes terms side by side as many at once as fill a line. Elements that are pairs don't:
  // it would take registers from their other terms. Rows are taken in parts, few enough for their
  // addresses, enough for their sums not to wait for each other.
  static constexpr int kAtOnce = 8, kOfLine = 16, kRowsAtOnce = 7;
  static constexpr bool kTakesSeveral =
      HWY_TARGET == HWY_AVX3 && kVectors == 1 && kRows % kRowsAtOnce == 0;
  static constexpr bool kTakesLines = kTakesSeveral && std::is_same_v<Element, float>;

  // Tiles of one block gain from it only by vectors that are lines.
  template <bool kFolds>
  static constexpr bool kFetchesResult = kFolds || kFillsLines;

  enum class Fetches { kNothing, kOneLine, kAllLines, kLaterTerm };  // with every term

  // The machine's own prefetcher for the first cache sees no stride where terms lie so many bytes
  // apart, and few multiply-adds can wait for the second one: of many terms a later one is fetched.
  static constexpr int64_t kFarApart = 2048, kTermsLater = 8;
  static constexpr bool kFetchesLaterTerm = HWY_TARGET == HWY_AVX3 && kRows > 1;

  using Wanted = WantedColumns<Element, D, kVectors, kEndsInHalf>;
  using Accumulators = TileAccumulators<Element, kRows, kVectors, kEndsInHalf>;

  // Pointers of a tile's rows, which have one common index: with as many increments as rows the
  // loop over terms would be bound by them.
  struct Operands {
    const Element* rows[kRows];
    Wanted columns;

    HWY_INLINE Operands(const GemmTileArgs<Element>& args, int64_t tile, const Wanted& wanted)
        : columns(wanted) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) rows[i] = args.a + args.a_rows[tile * kRows + i];
    }
  };

  // In pairs as an instance of its own: the steps back and forth take registers for addresses,
  // which are short.
  template <bool kInPairs>
  static void RunPanels(const GemmTileArgs<Element>& args) {
    const bool one_block =
        args.num_blocks == 1 && !args.resume && !args.keep && StoresFromRegisters(args);
    const auto run = one_block ? RunTiles<kInPairs, false, false> : RunTiles<kInPairs, true, false>;
    if (args.num_panels == 1) return run(args);
    if constexpr (kJoinsPanels && !kInPairs) {
      if (one_block) return RunTiles<false, false, true>(args);
    }
    GemmTileArgs<Element> panel = args;
    for (int64_t i = 0; i < args.num_panels; ++i) {
      run(panel);
      panel.b += args.num_cols;
      panel.c += args.num_cols;
      if (args.ahead != nullptr) {
        panel.ahead = static_cast<const Element*>(panel.ahead) + args.num_cols;
      }
    }
  }

  // Tiles of one block need no kFolds: their sums are the result. With kPanels all panels of a tile
  // come before the next tile.
  template <bool kInPairs, bool kFolds, bool kPanels>
  static HWY_NOINLINE void RunTiles(const GemmTileArgs<Element>& args) {
    const int64_t terms = NumTerms(args);
    const Wanted wanted(args.num_cols, args.masked);
    Accumulators acc;
    for (int64_t tile = 0; tile < args.num_tiles; ++tile) {
      const Operands operands(args, tile, wanted);
      const Ahead of_tile = AheadOfTile(args, tile, terms);
      int64_t col = 0;
      for (int64_t panel = 0; panel < (kPanels ? args.num_panels : 1); ++panel) {
        Ahead ahead = of_tile;
        ahead.at += col * static_cast<int64_t>(sizeof(Element));
        if (kFetchesResult<kFolds> && args.fetches_result) PrefetchResult(args, tile, col);
        if constexpr (kFolds) {
          FoldBlocks<kInPairs>(args, tile, operands, acc, ahead);
        } else {
          acc.Begin(args, tile, col);
          AddSegments<kInPairs>(args, args.segments, args.segments + args.block_ends[0], operands,
                                args.b + col, acc, ahead);
          acc.Finish();
          acc.Store(args, tile, col);
        }
        if (kPanels) col += args.num_cols;
      }
    }
  }

  template <bool kInPairs>
  static HWY_INLINE void FoldBlocks(const GemmTileArgs<Element>& args, int64_t tile,
                                    const Operands& operands, Accumulators& acc, Ahead& ahead) {
    WaitingBlocks<Element, kRows, kVectors> blocks(args.sums + tile * args.sums_step, args.resume);
    const GemmSegment* begin = args.segments;
    for (int64_t block = 0; block < args.num_blocks; ++block) {
      const GemmSegment* const end = args.segments + args.block_ends[block];
      acc.SetZero();
      AddSegments<kInPairs>(args, begin, end, operands, args.b, acc, ahead);
      begin = end;
      acc.StoreAll(blocks.Next());
    }
    args.keep ? FinishBlocks(blocks.sums()) : FinishTile(args, tile, blocks.sums());
  }

  // A block's segments.
  template <bool kInPairs>
  static HWY_INLINE void AddSegments(const GemmTileArgs<Element>& args, const GemmSegment* segment,
                                     const GemmSegment* end, const Operands& operands,
                                     const Element* columns, Accumulators& acc, Ahead& ahead) {
    for (; segment != end; ++segment) {
      AddSegment<kInPairs>(args, operands, *segment, columns, acc, ahead);
    }
  }

  // A result is stored from registers if some of the columns of a tile's last vector are wanted.
  static bool StoresFromRegisters(const GemmTileArgs<Element>& args) {
    return args.num_cols > (kVectors - 1) * static_cast<int64_t>(hn::Lanes(D()));
  }

  static int64_t NumTerms(const GemmTileArgs<Element>& args) {
    int64_t terms = 0;
    for (int64_t i = 0; i < args.block_ends[args.num_blocks - 1]; ++i) {
      terms += args.segments[i].length;
    }
    return terms;
  }

  // A tile fetches what the caller wants; else, from beyond the caches, the next tile's rows in
  // their last segment, which no tile has read before if rows and segments ascend. It fetches
  // nothing where they lie far apart. Of a narrow tile's many rows the machine by itself fetches up
  // to two lines.
  static HWY_INLINE Ahead AheadOfTile(const GemmTileArgs<Element>& args, int64_t tile,
                                      int64_t terms) {
    const Ahead nothing{reinterpret_cast<const char*>(args.b), 0, 0};
    if (!kFetches && !(kFetchesFar && args.far)) return nothing;
    if (args.ahead != nullptr) {
      const int64_t tile_step =
          args.ahead_tile_step != 0 ? args.ahead_tile_step : terms * args.ahead_step;
      return {static_cast<const char*>(args.ahead) + tile * tile_step, args.ahead_step,
              args.ahead_bytes};
    }
    if (!args.far) return nothing;
    if (tile + 1 == args.num_tiles || terms == 0) return nothing;
    const int64_t* a_rows = args.a_rows + (tile + 1) * kRows;
    const GemmSegment& last = args.segments[args.block_ends[args.num_blocks - 1] - 1];
    const int64_t bytes = (a_rows[kRows - 1] - a_rows[0] + last.length * args.a_step) *
                          static_cast<int64_t>(sizeof(Element));
    if (bytes <= 0 || bytes > Ahead::kLine * terms) return nothing;
    if (kIsNarrow && bytes < kRows * 3 * Ahead::kLine) return nothing;
    return {reinterpret_cast<const char*>(args.a + a_rows[0] + last.a), bytes / terms, 0};
  }

  // The lines of a tile's result are asked for while its blocks are computed: stores wait for them
  // one after the other. A call, so that the loop over terms has all registers; GCC would leave out
  // calls of a function that does nothing but this.
  static HWY_NOINLINE void PrefetchResult(const GemmTileArgs<Element>& args, int64_t tile,
                                          int64_t col) {
    asm volatile("");
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      if (args.narrowed != nullptr) return PrefetchRows(args, tile, args.narrowed + col);
    }
    PrefetchRows(args, tile, args.c + col);
  }
  template <class Result>
  static HWY_INLINE void PrefetchRows(const GemmTileArgs<Element>& args, int64_t tile,
                                      const Result* to) {
    constexpr int64_t kLine = 64 / sizeof(Result);
    const int64_t num_rows = args.RowsOf(tile, kRows);
    for (int64_t i = 0; i < num_rows; ++i) {
      const Result* row = to + args.c_rows[tile * kRows + i];
      for (int64_t j = 0; j < args.num_cols; j += kLine) __builtin_prefetch(row + j, 1);
      __builtin_prefetch(row + args.num_cols - 1, 1);  // rows need not begin with a line
    }
  }

  template <bool kInPairs>
  static HWY_INLINE void AddSegment(const GemmTileArgs<Element>& args, const Operands& operands,
                                    const GemmSegment& segment, const Element* columns,
                                    Accumulators& acc, Ahead& ahead) {
    const Element* b = columns + segment.b;
    int64_t at = segment.a;
    int64_t back = 1;
    if (kInPairs && segment.length > 1) {  // one on, one back, three on, ...
      at += args.a_step;
      b += args.b_step;
      back = -1;
    }
    int64_t k = segment.length;
    if constexpr (kTakesLines && !kInPairs) {
      if (args.a_step == 1) {
        while (k >= kOfLine) AddSeveral<kOfLine, true>(args, operands, acc, at, b, k, ahead);
        if (k >= kAtOnce) AddSeveral<kAtOnce, true>(args, operands, acc, at, b, k, ahead);
      }
    }
    if constexpr (kTakesSeveral && kEndsInHalf && !kInPairs) {
      while (k >= kAtOnce) AddSeveral<kAtOnce, false>(args, operands, acc, at, b, k, ahead);
    }
    while (kFetchesFar && !kInPairs && ahead.step > 0 && k > kAtOnce) {
      ahead.FetchForSeveral(kAtOnce);
      for (const int64_t end = k - kAtOnce; k > end;) {
        AddTerm<kInPairs, Fetches::kNothing>(args, operands, acc, at, b, back, k, ahead);
      }
    }
    // Asked with every term this would take up to a tenth of all time, and so does fetching.
    if (kFetches && ahead.bytes > Ahead::kLine) {
      while (k > 0)
        AddTerm<kInPairs, Fetches::kAllLines>(args, operands, acc, at, b, back, k, ahead);
    } else if (kFetches && ahead.step > 0) {
      while (k > 0)
        AddTerm<kInPairs, Fetches::kOneLine>(args, operands, acc, at, b, back, k, ahead);
    } else if (kFetchesLaterTerm && k >= 4 * kTermsLater &&
               std::max(args.a_step, args.b_step) * int64_t{sizeof(Element)} >= kFarApart) {
      while (k > 0)
        AddTerm<kInPairs, Fetches::kLaterTerm>(args, operands, acc, at, b, back, k, ahead);
    } else {
      while (k > 0)
        AddTerm<kInPairs, Fetches::kNothing>(args, operands, acc, at, b, back, k, ahead);
    }
  }

  // So many terms, and on to the next; k are left. kSideBySide: a_step is 1.
  template <int kCount, bool kSideBySide>
  static HWY_INLINE void AddSeveral(const GemmTileArgs<Element>& args, const Operands& operands,
                                    Accumulators& acc, int64_t& at, const Element*& b, int64_t& k,
                                    Ahead& ahead) {
    ahead.FetchForSeveral(kCount);
    using With = std::conditional_t<kEndsInHalf, TimesHalf, Times>;
    typename With::V columns[kCount];
#pragma GCC unroll 16
    for (int t = 0; t < kCount; ++t) {
      if constexpr (kEndsInHalf) {
        columns[t] = operands.columns.LoadHalf(b + t * args.b_step);
      } else {
        columns[t] = operands.columns.Load(0, b + t * args.b_step);
      }
    }
#pragma GCC unroll 16
    for (int first = 0; first < kRows; first += kRowsAtOnce) {
      const Element* rows[kRowsAtOnce];
#pragma GCC unroll 16
      for (int i = 0; i < kRowsAtOnce; ++i) rows[i] = operands.rows[first + i] + at;
#pragma GCC unroll 16
      for (int t = 0; t < kCount; ++t) {
        const int64_t term = kSideBySide ? t : t * args.a_step;
#pragma GCC unroll 16
        for (int i = 0; i < kRowsAtOnce; ++i) {
          if constexpr (kEndsInHalf) {
            acc.half[first + i] = With::AddTimes(rows[i] + term, columns[t], acc.half[first + i]);
          } else {
            acc.whole[first + i][0] =
                With::AddTimes(rows[i] + term, columns[t], acc.whole[first + i][0]);
          }
        }
      }
    }
    at += kCount * args.a_step;
    b += kCount * args.b_step;
    k -= kCount;
  }

  // A column that all rows read, of which a few would else be loaded again for each.
  template <class V>
  static HWY_INLINE V OfRows(V column) {
    return kRows > 1 ? InRegister(column) : column;
  }

  // One term, the k-th from the segment's end, and on to the next.
  template <bool kInPairs, Fetches kFetched>
  static HWY_INLINE void AddTerm(const GemmTileArgs<Element>& args, const Operands& operands,
                                 Accumulators& acc, int64_t& at, const Element*& b, int64_t back,
                                 int64_t& k, Ahead& ahead) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    if constexpr (kFetched == Fetches::kLaterTerm) {
      __builtin_prefetch(operands.rows[0] + at + kTermsLater * args.a_step);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        __builtin_prefetch(b + kTermsLater * args.b_step + v * lanes);
      }
    } else if constexpr (kFetched != Fetches::kNothing) {
      ahead.template Fetch<kFetched == Fetches::kAllLines>();
    }
    typename Times::V column[kWhole == 0 ? 1 : kWhole];
#pragma GCC unroll 16
    for (int v = 0; v < kWhole; ++v) column[v] = OfRows(operands.columns.Load(v, b + v * lanes));
    typename TimesHalf::V half_column;
    if constexpr (kEndsInHalf) half_column = OfRows(operands.columns.LoadHalf(b + kWhole * lanes));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      // Broadcasts to both vectors of a row cost some machines more than to read a factor twice,
      // which costs others more: every other row.
      if constexpr (kEndsInHalf && kWhole <= 1) {
        if (kWhole == 0 || i % 2 != 0) {
          if constexpr (kWhole == 1) {
            acc.whole[i][0] = Times::AddTimes(operands.rows[i] + at, column[0], acc.whole[i][0]);
          }
          acc.half[i] = TimesHalf::AddTimes(operands.rows[i] + at, half_column, acc.half[i]);
          continue;
        }
      }
      const auto factor = Times::Broadcast(operands.rows[i] + at);
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) {
        acc.whole[i][v] = Times::Add(factor, column[v], acc.whole[i][v]);
      }
      if constexpr (kEndsInHalf) {
        acc.half[i] = TimesHalf::Add(hn::LowerHalf(factor), half_column, acc.half[i]);
      }
    }
    if (kInPairs && (k & 1) != 0) {
      at += 4 * args.a_step;
      b += 4 * args.b_step;
    }
    at += kInPairs ? back * args.a_step : args.a_step;
    b += kInPairs ? back * args.b_step : args.b_step;
    --k;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
