// The indirect matrix micro-kernel; see indirect_gemm.h. Included once per target.
//
// The accumulators of a whole tile stay in registers: every loop over them is unrolled, also those
// that set and store, or GCC keeps the array in memory. Segments and blocks are loops inside the
// kernel, because entering it anew for each filter row cost more than half of its speed.
#if defined(CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#undef CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#else
#define CONVGRAD_KERNELS_INDIRECT_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

// The first `count` lanes of `value`, touching no memory behind them.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> value, T* to, int64_t count) {
#if defined(__x86_64__)
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else  // the library's masked store writes whole vectors there
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(value, d, lanes);
  std::copy_n(lanes, count, to);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreUpTo(D d, hn::Vec<D> value, T* to, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) {
    hn::StoreU(value, d, to);
  } else if (count > 0) {
    StoreFirst(d, value, to, count);
  }
}

template <Finish kFinish, class D, class Element>
void FinishRows(D d, const GemmTileArgs<Element>& args, int64_t rows, int64_t cols) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double* errors = args.sums + rows * cols;
  for (int64_t i = 0; i < args.num_rows; ++i) {
    for (int64_t j = 0; j < args.num_cols; j += lanes) {
      const auto result = FoldResult<kFinish>(d, args.sums + i * cols + j, errors + i * cols + j);
      StoreUpTo(d, result, args.c + args.c_rows[i] + j, args.num_cols - j);
    }
  }
}

template <class Element>
HWY_NOINLINE void FinishTile(const GemmTileArgs<Element>& args, int64_t rows, int64_t cols) {
  const hn::ScalableTag<ComputeType<Element>> d;
  if (args.odd) {
    FinishRows<Finish::kOdd>(d, args, rows, cols);
  } else {
    FinishRows<Finish::kNearest>(d, args, rows, cols);
  }
}

template <class T>
void AddRun(const double* sums, double* total, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 4) {
      total[i] += sums[i];
    } else {
      const double term = sums[i];
      const double sum = total[i] + term;
      const double back = sum - total[i];
      total[count + i] += (total[i] - (sum - back)) + (term - back);
      total[count + i] += sums[count + i];
      total[i] = sum;
    }
  }
}

// How the micro-kernel multiplies two operands' elements into its sums.
template <class Compute>
struct Multiplier {
  using D = hn::ScalableTag<Compute>;
  using V = hn::Vec<D>;
  static HWY_INLINE V Load(const Compute* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE V Broadcast(const Compute* from) { return hn::Set(D(), *from); }
  static HWY_INLINE V Add(V factor, V column, V sum) { return Fma(factor, column, sum); }
};

#if HWY_TARGET == HWY_AVX3
// Two chained fused multiply-adds, the second numbers' first; subnormals count as zero. As
// assembly, since the target's other code must run on processors without this instruction.
template <>
struct Multiplier<BFloat16Pair> {
  using D = hn::ScalableTag<uint32_t>;
  using V = hn::Vec<D>;
  using Sum = hn::Vec<hn::ScalableTag<float>>;
  static HWY_INLINE V Load(const BFloat16Pair* from) {
    return hn::LoadU(D(), reinterpret_cast<const uint32_t*>(from));
  }
  static HWY_INLINE V Broadcast(const BFloat16Pair* from) {
    uint32_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return hn::Set(D(), bits);
  }
  static HWY_INLINE Sum Add(V factor, V column, Sum sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(factor.raw), "v"(column.raw));
    return sum;
  }
};
#endif

template <class Element, int kRows, int kVectors>
class Tile {
 public:
  static void Run(const GemmTileArgs<Element>& args) {
    if constexpr (std::is_same_v<Element, float>) {
      if (args.in_pairs) return RunBlocks<true>(args);
    }
    RunBlocks<false>(args);
  }

 private:
  using T = ComputeType<Element>;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Times = Multiplier<Element>;

  // In pairs as an instance of its own: the steps back and forth cost 3 % where registers for
  // addresses are short.
  template <bool kInPairs>
  static void RunBlocks(const GemmTileArgs<Element>& args) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const bool single = args.num_blocks == 1 && !args.resume && !args.keep;
    if (single) {
      PrefetchResult(args);
    } else if (!args.resume) {
      ZeroSums(args.sums);
    }
    const char* ahead = static_cast<const char*>(args.ahead != nullptr ? args.ahead : args.b);
    V acc[kRows][kVectors];
    const GemmSegment* segment = args.segments;
    for (int64_t block = 0; block < args.num_blocks; ++block) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
      }
      for (const GemmSegment* end = args.segments + args.block_ends[block]; segment != end;
           ++segment) {
        // Pointers of the rows and one common index: with as many increments as rows the loop would
        // be bound by them.
        const Element* rows[kRows];
#pragma GCC unroll 16
        for (int i = 0; i < kRows; ++i) rows[i] = args.a + args.a_rows[i] + segment->a;
        const Element* b = args.b + segment->b;
        int64_t at = 0;
        int64_t back = 1;
        if (kInPairs && segment->length > 1) {  // one on, one back, three on, ...
          at = args.a_step;
          b += args.b_step;
          back = -1;
        }
        for (int64_t k = segment->length; k > 0; --k,
                     at += kInPairs ? back * args.a_step : args.a_step,
                     b += kInPairs ? back * args.b_step : args.b_step) {
          if constexpr (kRows <= 8) {
            __builtin_prefetch(ahead, 0, 2);
            ahead += args.ahead_step;
          }
          typename Times::V column[kVectors];
#pragma GCC unroll 16
          for (int v = 0; v < kVectors; ++v) column[v] = Times::Load(b + v * lanes);
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            const auto factor = Times::Broadcast(rows[i] + at);
#pragma GCC unroll 16
            for (int v = 0; v < kVectors; ++v) acc[i][v] = Times::Add(factor, column[v], acc[i][v]);
          }
          if (kInPairs && (k & 1) != 0) {
            at += 4 * args.a_step;
            b += 4 * args.b_step;
          }
        }
      }
      if (single) return StoreOnly(args, acc);
      Fold(args.sums, acc);
    }
    if (!args.keep) FinishTile(args, kRows, kVectors * lanes);
  }

  // The lines of the result are asked for while the chains run.
  static HWY_INLINE void PrefetchResult(const GemmTileArgs<Element>& args) {
    constexpr int64_t kLine = 64 / sizeof(T);
    for (int64_t i = 0; i < args.num_rows; ++i) {
      const T* row = args.c + args.c_rows[i];
      for (int64_t j = 0; j < args.num_cols; j += kLine) __builtin_prefetch(row + j, 1);
    }
  }

  // A loop of its own: a call (to memset) would make the compiler spill accumulators.
  static HWY_INLINE void ZeroSums(double* sums) {
    const hn::ScalableTag<double> d;
    const size_t count = kRows * kVectors * hn::Lanes(D()) * (sizeof(T) / 4);
    for (size_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(hn::Zero(d), d, sums + i);
  }

  // A single block: its sum is the result, with -0 made +0.
  static HWY_INLINE void StoreOnly(const GemmTileArgs<Element>& args,
                                   const V (&acc)[kRows][kVectors]) {
    const D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      if (i >= args.num_rows) return;
      T* row = args.c + args.c_rows[i];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const V sum = CanonicalNaN(d, hn::Add(acc[i][v], hn::Zero(d)));
        StoreUpTo(d, sum, row + v * lanes, args.num_cols - v * lanes);
      }
    }
  }

  static HWY_INLINE void Fold(double* sums, const V (&acc)[kRows][kVectors]) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    double* errors = sums + kRows * kVectors * lanes;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const size_t at = (i * kVectors + v) * lanes;
        FoldBlock(d, acc[i][v], sums + at, errors + at);
      }
    }
  }
};

// Sizes by registers: accumulators, the vectors of a column and one broadcast factor must fit, and
// one load or broadcast should serve two multiply-adds.
template <class Element, int kRows, int kVectors>
GemmTile<Element> MakeTile() {
  const int lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<ComputeType<Element>>()));
  return {kRows, kVectors * lanes, Tile<Element, kRows, kVectors>::Run};
}

template <class Element>
std::span<const GemmTile<Element>> Tiles() {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON  // 32 registers
  static const GemmTile<Element> tiles[] = {
      MakeTile<Element, 14, 1>(), MakeTile<Element, 8, 1>(),  MakeTile<Element, 4, 1>(),
      MakeTile<Element, 1, 1>(),  MakeTile<Element, 12, 2>(), MakeTile<Element, 8, 2>(),
      MakeTile<Element, 4, 2>(),  MakeTile<Element, 1, 2>(),  MakeTile<Element, 8, 3>(),
      MakeTile<Element, 4, 3>(),  MakeTile<Element, 2, 3>(),  MakeTile<Element, 1, 3>(),
      MakeTile<Element, 6, 4>(),  MakeTile<Element, 4, 4>(),  MakeTile<Element, 3, 4>(),
      MakeTile<Element, 2, 4>(),  MakeTile<Element, 1, 4>(),
  };
#else  // 16 registers
  static const GemmTile<Element> tiles[] = {
      MakeTile<Element, 12, 1>(), MakeTile<Element, 6, 1>(), MakeTile<Element, 3, 1>(),
      MakeTile<Element, 1, 1>(),  MakeTile<Element, 6, 2>(), MakeTile<Element, 4, 2>(),
      MakeTile<Element, 2, 2>(),  MakeTile<Element, 1, 2>(), MakeTile<Element, 4, 3>(),
      MakeTile<Element, 2, 3>(),  MakeTile<Element, 1, 3>(),
  };
#endif
  return tiles;
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
