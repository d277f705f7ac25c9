// The kernels of every instruction set as plain tables of function pointers. Kernels know pointers,
// counts and strides; they know neither convolutions nor threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/depthwise/depthwise.h"
#include "kernels/depthwise/plane.h"
#include "kernels/gemm/compensated.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/indirect_gemm.h"
#include "kernels/gemm/plane_squares.h"
#include "kernels/gemm/tap_row.h"
#include "kernels/limits/machine_limits.h"
#include "kernels/pack/pack.h"
#include "kernels/pack/pack_pairs.h"
#include "kernels/whole_vectors/vector_gemm.h"
#include "kernels/whole_vectors/vector_outer.h"

namespace convgrad {

enum class Isa { kAvx512, kAvx2, kNeon, kScalar };  // best first

inline constexpr Isa kAllIsas[] = {Isa::kAvx512, Isa::kAvx2, Isa::kNeon, Isa::kScalar};

// "avx512", "avx2", "neon", "scalar".
const char* NameOf(Isa isa);
std::optional<Isa> ParseIsa(std::string_view name);

// The vector library's version, e.g. "1.0.3".
const char* VectorLibraryVersion();

struct KernelTable {
  Isa isa;
  int vector_bytes;       // of one vector register; scalar: one double
  bool has_bf16_pairs;    // the processor multiplies bfloat16 numbers pair by pair
  bool takes_bf16_pairs;  // and is quicker by it than by single numbers: forms do so

  // A core has so much first-level cache, and second-level cache to itself.
  int64_t first_cache_bytes, second_cache_bytes;

  // Tensors of fewer bytes a thread lie near it: in a second-level cache of its own, or in a third
  // one that answers nearly as soon.
  int64_t near_bytes;

  // The last cache keeps so many bytes of a thread's tensors, among them lines of which only a part
  // has been written.
  int64_t last_cache_bytes;

  // Copies bytes; whole lines of `to` are written around the caches, and the caller fences.
  void (*stream_bytes)(const void* from, void* to, int64_t bytes);

  IndirectGemmKernels<float> gemm_f32;
  IndirectGemmKernels<double> gemm_f64;
  IndirectGemmKernels<BFloat16Pair> gemm_bf16_pairs;  // if has_bf16_pairs
  PackPairKernels pack_bf16_pairs;                    // likewise
  VectorGemmKernels<float> vectors_f32;
  VectorGemmKernels<double> vectors_f64;
  VectorGemmKernels<BFloat16Pair> vectors_bf16_pairs;  // if has_bf16_pairs
  VectorOuterKernels<float> outer_f32;
  VectorOuterKernels<double> outer_f64;
  TapRowKernels<float> tap_row_f32;
  TapRowKernels<double> tap_row_f64;
  PlaneSquareKernels<float> plane_squares_f32;
  PlaneSquareKernels<double> plane_squares_f64;
  FewRowsKernels<float> few_rows_f32;
  FewRowsKernels<double> few_rows_f64;
  DepthwiseKernels<float> depthwise_f32;
  DepthwiseKernels<double> depthwise_f64;
  DepthwiseRowKernels<Float16> depthwise_rows_f16;
  DepthwiseRowKernels<BFloat16> depthwise_rows_bf16;
  DepthwiseRowKernels<float> depthwise_rows_f32;
  DepthwiseRowKernels<double> depthwise_rows_f64;
  PackKernels<Float16> pack_f16;
  PackKernels<BFloat16> pack_bf16;
  PackKernels<float> pack_f32;
  PackKernels<double> pack_f64;
  PlaneKernels<float> plane_f32;
  PlaneKernels<double> plane_f64;
  CompensatedKernels compensated;
  MachineLimitKernels machine_limits;

  // The members by type: Compute is float or double, Element one of them or BFloat16Pair, Stored a
  // storage type.
  template <class Element>
  const IndirectGemmKernels<Element>& Gemm() const {
    return OneOf<IndirectGemmKernels<Element>>(gemm_f32, gemm_f64, gemm_bf16_pairs);
  }
  template <class Element>
  const VectorGemmKernels<Element>& VectorGemm() const {
    return OneOf<VectorGemmKernels<Element>>(vectors_f32, vectors_f64, vectors_bf16_pairs);
  }
  template <class Compute>
  const VectorOuterKernels<Compute>& VectorOuter() const {
    return OneOf<VectorOuterKernels<Compute>>(outer_f32, outer_f64);
  }
  template <class Compute>
  const TapRowKernels<Compute>& TapRow() const {
    return OneOf<TapRowKernels<Compute>>(tap_row_f32, tap_row_f64);
  }
  template <class Compute>
  const PlaneSquareKernels<Compute>& PlaneSquares() const {
    return OneOf<PlaneSquareKernels<Compute>>(plane_squares_f32, plane_squares_f64);
  }
  template <class Compute>
  const FewRowsKernels<Compute>& FewRows() const {
    return OneOf<FewRowsKernels<Compute>>(few_rows_f32, few_rows_f64);
  }
  template <class Compute>
  const DepthwiseKernels<Compute>& Depthwise() const {
    return OneOf<DepthwiseKernels<Compute>>(depthwise_f32, depthwise_f64);
  }
  template <class Stored>
  const DepthwiseRowKernels<Stored>& DepthwiseRows() const {
    return OneOf<DepthwiseRowKernels<Stored>>(depthwise_rows_f16, depthwise_rows_bf16,
                                              depthwise_rows_f32, depthwise_rows_f64);
  }
  template <class Stored>
  const PackKernels<Stored>& Pack() const {
    return OneOf<PackKernels<Stored>>(pack_f16, pack_bf16, pack_f32, pack_f64);
  }
  template <class Compute>
  const PlaneKernels<Compute>& Plane() const {
    return OneOf<PlaneKernels<Compute>>(plane_f32, plane_f64);
  }

 private:
  // The one member that is of that type.
  template <class Kernels, class... Members>
  static const Kernels& OneOf(const Members&... members) {
    return std::get<const Kernels&>(std::tie(members...));
  }
};

// The tables this machine can run, best first; the scalar one is always there.
const std::vector<KernelTable>& SupportedKernels();
// The table of `isa`, or null if this machine can't run it.
const KernelTable* FindKernels(Isa isa);

}  // namespace convgrad
