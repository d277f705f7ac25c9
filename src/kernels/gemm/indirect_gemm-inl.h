// The indirect matrix micro-kernel; see indirect_gemm.h. Included once per target.
//
// The accumulators of a whole tile stay in registers: every loop over them is unrolled, also those
// that set and store, or GCC keeps the array in memory. Segments, blocks and tiles are loops inside
// the kernel, because entering it anew for each filter row cost more than half of its speed, and
// because only the next block has multiply-adds between which this one's sums can be folded.
#if defined(CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#undef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#else
#define CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#endif

#include <algorithm>
#include <iterator>

#include "kernels/gemm/multiplier-inl.h"
#include "kernels/gemm/tile_sums-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// Where no more than half of the last vector's columns are wanted, `kEndsInHalf`, that vector is
// computed as one of half the size: half the work for processors that split 512 bits, no more for
// others. In memory it stays a whole one, its other half zeros.
template <class Element, int kRows, int kVectors, bool kEndsInHalf>
class Tile {
 public:
  static void Run(const GemmTileArgs<Element>& args) {
    if constexpr (std::is_same_v<Element, float>) {
      if (args.in_pairs) return RunTiles<true>(args);
    }
    RunTiles<false>(args);
  }

 private:
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
  using Half = hn::Half<D>;
  using Times = Multiplier<Element, D>;
  using TimesHalf = Multiplier<Element, Half>;
  static constexpr int kCount = kRows * kVectors;
  static constexpr int kWhole = kEndsInHalf ? kVectors - 1 : kVectors;
  // Long narrow tiles have no time for another load.
  static constexpr bool kFetches = kRows <= 8 || kVectors > 1;

  // The sums of a block, in registers.
  struct Accumulators {
    hn::Vec<D> whole[kRows][kWhole == 0 ? 1 : kWhole];
    hn::Vec<Half> half[kRows];

    HWY_INLINE Accumulators() {}  // one that the compiler adds is not for this target

    HWY_INLINE void SetZero() {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kWhole; ++v) whole[i][v] = hn::Zero(D());
        if constexpr (kEndsInHalf) half[i] = hn::Zero(Half());
      }
    }

    HWY_INLINE void Store(T* to) const {
      const int lanes = static_cast<int>(hn::Lanes(D()));
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kWhole; ++v) {
          hn::Store(whole[i][v], D(), to + (i * kVectors + v) * lanes);
        }
        if constexpr (kEndsInHalf) {
          hn::Store(half[i], Half(), to + (i * kVectors + kWhole) * lanes);
        }
      }
    }
  };

  // In pairs as an instance of its own: the steps back and forth cost 3 % where registers for
  // addresses are short.
  template <bool kInPairs>
  static void RunTiles(const GemmTileArgs<Element>& args) {
    const D d;
    HWY_ALIGN T block_sums[kCount * hn::MaxLanes(d)];
    if constexpr (kEndsInHalf) std::fill_n(block_sums, std::size(block_sums), T{0});
    const int64_t doubles = kCount * static_cast<int64_t>(hn::Lanes(d) * (sizeof(T) / 4));
    WaitingBlock<T> waiting{block_sums, kCount, false, false, nullptr, nullptr};
    const bool one_block = args.num_blocks == 1 && !args.resume && !args.keep;
    // Whole vectors of one block are stored from their registers.
    const bool direct = one_block && args.num_cols == kVectors * static_cast<int64_t>(hn::Lanes(d));
    const int64_t terms = args.num_tiles > 1 && args.ahead == nullptr ? NumTerms(args) : 0;
    Ahead ahead{static_cast<const char*>(args.ahead != nullptr ? args.ahead : args.b),
                args.ahead_step, args.ahead_bytes};
    Accumulators acc;
    for (int64_t tile = 0; tile < args.num_tiles; ++tile) {
      if (one_block && !args.stream) PrefetchResult(args, tile);
      if (terms > 0) ahead = AheadOfTile(args, tile, terms);
      // Pointers of the rows and one common index: with as many increments as rows the loop over
      // terms would be bound by them.
      const Element* rows[kRows];
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) rows[i] = args.a + args.a_rows[tile * kRows + i];
      const GemmSegment* segment = args.segments;
      for (int64_t block = 0; block < args.num_blocks; ++block) {
        acc.SetZero();
        for (const GemmSegment* end = args.segments + args.block_ends[block]; segment != end;
             ++segment) {
          AddSegment<kInPairs>(args, rows, *segment, acc, waiting, ahead);
        }
        if (direct) {
          StoreTile(args, tile, acc);
          continue;
        }
        if (waiting.folded < kCount) FoldRest(args, waiting);
        acc.Store(block_sums);
        waiting.folded = 0;
        waiting.starts = block == 0 && !args.resume;
        waiting.ends = block + 1 == args.num_blocks && !args.keep;
        waiting.sums = args.sums + (args.resume || args.keep ? tile * doubles : 0);
        waiting.c_rows = args.c_rows + tile * kRows;
      }
    }
    FoldRows<kVectors>(args, kRows, waiting.ends ? args.num_rows : kRows, waiting);
  }

  // Folds what a block of few terms has left of the one before.
  static HWY_INLINE void FoldRest(const GemmTileArgs<Element>& args, WaitingBlock<T>& waiting) {
    VisitWaiting(waiting, [&](auto starts, auto ends) HWY_ATTR {
      for (int64_t i = waiting.folded; i < kCount; ++i) {
        FoldVector<kVectors, starts, ends>(args, kRows, waiting, i);
      }
    });
    waiting.folded = kCount;
  }

  // The result of a tile of one block, whose columns are all wanted.
  static HWY_INLINE void StoreTile(const GemmTileArgs<Element>& args, int64_t tile,
                                   const Accumulators& acc) {
    if (args.stream) {
      StoreRows<true>(args, tile, acc);
    } else {
      StoreRows<false>(args, tile, acc);
    }
  }
  template <bool kStream>
  static HWY_INLINE void StoreRows(const GemmTileArgs<Element>& args, int64_t tile,
                                   const Accumulators& acc) {
    const D d;
    const int64_t num_rows = tile + 1 == args.num_tiles ? args.num_rows : kRows;
    const int64_t* c_rows = args.c_rows + tile * kRows;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i == num_rows) break;
      if constexpr (kOfPairs<Element> && kWhole > 0) {
        if (args.narrowed != nullptr) {
          StoreNarrowed<kStream>(acc.whole[i], args.narrowed + c_rows[i]);
          continue;
        }
      }
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) {
        StoreWhole<kStream>(d, OnlyBlock<Element>(d, acc.whole[i][v]), args,
                            c_rows[i] + v * static_cast<int64_t>(hn::Lanes(d)));
      }
    }
  }

  static int64_t NumTerms(const GemmTileArgs<Element>& args) {
    int64_t terms = 0;
    for (int64_t i = 0; i < args.block_ends[args.num_blocks - 1]; ++i) {
      terms += args.segments[i].length;
    }
    return terms;
  }

  // Memory to fetch while a tile is computed: so many bytes with each term, a step further on.
  struct Ahead {
    static constexpr int64_t kLine = 64;
    const char* at;
    int64_t step, bytes;

    // The first line, or all of them.
    template <bool kAll>
    HWY_INLINE void Fetch() {
      __builtin_prefetch(at, 0, 2);
      for (int64_t next = kLine; kAll && next < bytes; next += kLine) {
        __builtin_prefetch(at + next, 0, 2);
      }
      at += step;
    }
  };

  // The next tile's rows in their last segment, which no tile has read before if
  // rows and segments ascend. Nothing, where its rows lie far apart.
  static Ahead AheadOfTile(const GemmTileArgs<Element>& args, int64_t tile, int64_t terms) {
    const Ahead nothing{reinterpret_cast<const char*>(args.b), 0, 0};
    if (tile + 1 == args.num_tiles) return nothing;
    const int64_t* a_rows = args.a_rows + (tile + 1) * kRows;
    const GemmSegment& last = args.segments[args.block_ends[args.num_blocks - 1] - 1];
    const int64_t bytes = (a_rows[kRows - 1] - a_rows[0] + last.length * args.a_step) *
                          static_cast<int64_t>(sizeof(Element));
    if (bytes <= 0 || bytes > 64 * terms) return nothing;
    return {reinterpret_cast<const char*>(args.a + a_rows[0] + last.a), bytes / terms, 0};
  }

  // The lines of a short tile's result are asked for while its chains run; where those are shorter
  // than asking takes, they are not.
  // A call: the loop over terms is to have all registers.
  static constexpr int64_t kFewTerms = 8;
  static HWY_NOINLINE void PrefetchResult(const GemmTileArgs<Element>& args, int64_t tile) {
    if (NumTerms(args) <= kFewTerms) return;
    if constexpr (std::is_same_v<Element, BFloat16Pair>) {
      if (args.narrowed != nullptr) return PrefetchRows(args, tile, args.narrowed);
    }
    PrefetchRows(args, tile, args.c);
  }
  template <class Result>
  static HWY_INLINE void PrefetchRows(const GemmTileArgs<Element>& args, int64_t tile,
                                      const Result* to) {
    constexpr int64_t kLine = 64 / sizeof(Result);
    const int64_t num_rows = tile + 1 == args.num_tiles ? args.num_rows : kRows;
    for (int64_t i = 0; i < num_rows; ++i) {
      const Result* row = to + args.c_rows[tile * kRows + i];
      for (int64_t j = 0; j < args.num_cols; j += kLine) __builtin_prefetch(row + j, 1);
    }
  }

  template <bool kInPairs>
  static HWY_INLINE void AddSegment(const GemmTileArgs<Element>& args,
                                    const Element* const (&rows)[kRows], const GemmSegment& segment,
                                    Accumulators& acc, WaitingBlock<T>& waiting, Ahead& ahead) {
    const Element* b = args.b + segment.b;
    int64_t at = segment.a;
    int64_t back = 1;
    if (kInPairs && segment.length > 1) {  // one on, one back, three on, ...
      at += args.a_step;
      b += args.b_step;
      back = -1;
    }
    int64_t k = segment.length;
    if (k > 0 && waiting.folded < kCount) {
      VisitWaiting(waiting, [&](auto starts, auto ends) HWY_ATTR {
        int64_t folded = waiting.folded;
        do {
          AddTerm<kInPairs, true>(args, rows, acc, at, b, back, k, ahead);
          FoldVector<kVectors, starts, ends>(args, kRows, waiting, folded);
          ++folded;
        } while (k > 0 && folded < kCount);
        waiting.folded = folded;
      });
    }
    // Asked with every term this would take up to a tenth of all time.
    if (kFetches && ahead.bytes > Ahead::kLine) {
      while (k > 0) AddTerm<kInPairs, true>(args, rows, acc, at, b, back, k, ahead);
    } else {
      while (k > 0) AddTerm<kInPairs, false>(args, rows, acc, at, b, back, k, ahead);
    }
  }

  // One term, the k-th from the segment's end, and on to the next.
  template <bool kInPairs, bool kFetchesAll>
  static HWY_INLINE void AddTerm(const GemmTileArgs<Element>& args,
                                 const Element* const (&rows)[kRows], Accumulators& acc,
                                 int64_t& at, const Element*& b, int64_t back, int64_t& k,
                                 Ahead& ahead) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
    if constexpr (kFetches) {
      ahead.template Fetch<kFetchesAll>();
    }
    typename Times::V column[kWhole == 0 ? 1 : kWhole];
#pragma GCC unroll 16
    for (int v = 0; v < kWhole; ++v) column[v] = Times::Load(b + v * lanes);
    typename TimesHalf::V half_column;
    if constexpr (kEndsInHalf) half_column = TimesHalf::Load(b + kWhole * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if constexpr (kEndsInHalf && kWhole <= 1) {  // a broadcast would take as long as one of them
        if constexpr (kWhole == 1) {
          acc.whole[i][0] = Times::AddTimes(rows[i] + at, column[0], acc.whole[i][0]);
        }
        acc.half[i] = TimesHalf::AddTimes(rows[i] + at, half_column, acc.half[i]);
      } else {
        const auto factor = Times::Broadcast(rows[i] + at);
#pragma GCC unroll 16
        for (int v = 0; v < kWhole; ++v) {
          acc.whole[i][v] = Times::Add(factor, column[v], acc.whole[i][v]);
        }
        if constexpr (kEndsInHalf) {
          acc.half[i] = TimesHalf::Add(hn::LowerHalf(factor), half_column, acc.half[i]);
        }
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

// Sizes by registers: accumulators, the vectors of a column and one broadcast factor must fit, and
// one load or broadcast should serve two multiply-adds.
template <class Element, int kRows, int kVectors>
void RunTile(const GemmTileArgs<Element>& args) {
#if HWY_TARGET == HWY_AVX3
  constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<ComputeType<Element>>());
  if constexpr (kVectors <= 3) {  // of four an eighth would be saved
    if (args.num_cols <= kVectors * kLanes - kLanes / 2) {
      return Tile<Element, kRows, kVectors, true>::Run(args);
    }
  }
#endif
  Tile<Element, kRows, kVectors, false>::Run(args);
}

template <class Element, int kRows, int kVectors>
GemmTile<Element> MakeTile() {
  const int lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<ComputeType<Element>>()));
  return {kRows, kVectors * lanes, RunTile<Element, kRows, kVectors>};
}

template <class Element>
std::span<const GemmTile<Element>> Tiles() {
  if constexpr (kManyRegisters) {
    static const GemmTile<Element> tiles[] = {
        MakeTile<Element, 14, 1>(), MakeTile<Element, 8, 1>(),  MakeTile<Element, 4, 1>(),
        MakeTile<Element, 1, 1>(),  MakeTile<Element, 13, 2>(), MakeTile<Element, 12, 2>(),
        MakeTile<Element, 8, 2>(),  MakeTile<Element, 4, 2>(),  MakeTile<Element, 1, 2>(),
        MakeTile<Element, 8, 3>(),  MakeTile<Element, 4, 3>(),  MakeTile<Element, 2, 3>(),
        MakeTile<Element, 1, 3>(),  MakeTile<Element, 6, 4>(),  MakeTile<Element, 4, 4>(),
        MakeTile<Element, 3, 4>(),  MakeTile<Element, 2, 4>(),  MakeTile<Element, 1, 4>(),
    };
    return tiles;
  } else {
    static const GemmTile<Element> tiles[] = {
        MakeTile<Element, 12, 1>(), MakeTile<Element, 6, 1>(), MakeTile<Element, 3, 1>(),
        MakeTile<Element, 1, 1>(),  MakeTile<Element, 6, 2>(), MakeTile<Element, 4, 2>(),
        MakeTile<Element, 2, 2>(),  MakeTile<Element, 1, 2>(), MakeTile<Element, 4, 3>(),
        MakeTile<Element, 2, 3>(),  MakeTile<Element, 1, 3>(),
    };
    return tiles;
  }
}

template <class Element>
IndirectGemmKernels<Element> MakeIndirectGemmKernels() {
  using Compute = ComputeType<Element>;
  return {static_cast<int>(hn::Lanes(hn::ScalableTag<Compute>())), Tiles<Element>(),
          AddRun<Compute>, FinishTile<Element>};
}

inline void FillIndirectGemm(KernelTable& table) {
  table.gemm_f32 = MakeIndirectGemmKernels<float>();
  table.gemm_f64 = MakeIndirectGemmKernels<double>();
#if HWY_TARGET == HWY_AVX3
  if (table.has_bf16_pairs) table.gemm_bf16_pairs = MakeIndirectGemmKernels<BFloat16Pair>();
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
