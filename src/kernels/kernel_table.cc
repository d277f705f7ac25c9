#include "kernels/kernel_table.h"

#include <unistd.h>

#include <algorithm>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/dispatch.h"

namespace convgrad {
namespace {

struct IsaRow {
  Isa isa;
  const char* name;
  int vector_bytes;
};

constexpr IsaRow kIsas[] = {
    {Isa::kAvx512, "avx512", 64},
    {Isa::kAvx2, "avx2", 32},
    {Isa::kNeon, "neon", 16},
    {Isa::kScalar, "scalar", 8},
};

#if defined(__x86_64__)
// Conversions of float16, of which older compilers' run-time libraries know nothing.
bool HasFloat16Conversions() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// The features that each instruction set's kernels need. The compiler's run-time library asks
// the processor and the system: the vector library's function would do as well, but its shared
// library measures a clock when it is loaded, which takes a good part of a small case's time.
bool CanRun(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    HasFloat16Conversions();
  if (isa == Isa::kAvx2) return avx2 && (HWY_TARGETS & HWY_AVX2) != 0;
  if (isa == Isa::kAvx512) {
    return avx2 && (HWY_TARGETS & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#else
  if (isa == Isa::kNeon) return true;  // part of every AArch64 processor
#endif
  return isa == Isa::kScalar;
}

bool HasBFloat16Pairs([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  return isa == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// AMD's processors multiply pairs at up to twice the rate of single numbers. Intel's take four
// times as long for vdpbf16ps as for a fused multiply-add of single numbers: half the rate.
bool IsQuickerByPairs() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// Processors have had so much for years, where the system doesn't tell.
int64_t FirstCacheBytes() {
  constexpr int64_t kLeast = int64_t{32} << 10;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  return std::max<int64_t>(sysconf(_SC_LEVEL1_DCACHE_SIZE), kLeast);
#else
  return kLeast;
#endif
}

// Likewise.
int64_t SecondCacheBytes() {
  constexpr int64_t kLeast = int64_t{512} << 10;
#if defined(_SC_LEVEL2_CACHE_SIZE)
  return std::max<int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE), kLeast);
#else
  return kLeast;
#endif
}

// AMD's third-level caches belong to a few cores, which find most of 16 MiB there; on AArch64
// nobody has measured it. Other processors' are of all their cores and take several times as long
// as the second one.
int64_t NearBytes([[maybe_unused]] int64_t second_cache_bytes) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
#if defined(__x86_64__)
  if (!__builtin_cpu_is("amd")) return std::max(second_cache_bytes, kMebibyte);
#endif
  return 16 * kMebibyte;
}

// AMD's third-level caches belong to a few cores: a thread finds less than half of one. Others' are
// of all cores: the more the larger, so it finds a fifth, and of the largest ones less.
int64_t LastCacheBytes() {
  constexpr int64_t kMebibyte = int64_t{1} << 20, kLeast = 12 * kMebibyte;
#if defined(__x86_64__) && defined(_SC_LEVEL3_CACHE_SIZE)
  constexpr int64_t kMost = 48 * kMebibyte;
  if (!__builtin_cpu_is("amd")) {
    return std::clamp<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE) / 5, kLeast, kMost);
  }
#endif
  return kLeast;
}

std::vector<KernelTable> MakeTables() {
  std::vector<KernelTable> tables;
  for (const IsaRow& row : kIsas) {
    if (!CanRun(row.isa)) continue;
    KernelTable table{};
    table.isa = row.isa;
    table.vector_bytes = row.vector_bytes;
    table.has_bf16_pairs = HasBFloat16Pairs(row.isa);
    table.takes_bf16_pairs = table.has_bf16_pairs && IsQuickerByPairs();
    table.first_cache_bytes = FirstCacheBytes();
    table.second_cache_bytes = SecondCacheBytes();
    table.near_bytes = NearBytes(table.second_cache_bytes);
    table.last_cache_bytes = LastCacheBytes();
    FillIndirectGemmKernels(table);
    FillVectorGemmKernels(table);
    FillVectorOuterKernels(table);
    FillTapRowKernels(table);
    FillPlaneSquareKernels(table);
    FillFewRowsKernels(table);
    FillDepthwiseKernels(table);
    FillDepthwiseForwardKernels(table);
    FillDepthwiseGradientKernels(table);
    FillDepthwiseRowsKernels(table);
    FillDepthwiseRowsInTurnKernels(table);
    FillPackKernels(table);
    FillPackPairKernels(table);
    FillPlaneKernels(table);
    FillWholePlaneKernels(table);
    FillCompensatedKernels(table);
    FillMachineLimitKernels(table);
    tables.push_back(table);
  }
  return tables;
}

}  // namespace

const char* NameOf(Isa isa) {
  return kIsas[static_cast<int>(isa)].name;
}

#define CONVGRAD_TEXT_OF(number) #number
#define CONVGRAD_VERSION_TEXT(major, minor, patch) \
  CONVGRAD_TEXT_OF(major) "." CONVGRAD_TEXT_OF(minor) "." CONVGRAD_TEXT_OF(patch)

const char* VectorLibraryVersion() {
  return CONVGRAD_VERSION_TEXT(HWY_MAJOR, HWY_MINOR, HWY_PATCH);
}

std::optional<Isa> ParseIsa(std::string_view name) {
  for (const IsaRow& row : kIsas) {
    if (name == row.name) return row.isa;
  }
  return std::nullopt;
}

const std::vector<KernelTable>& SupportedKernels() {
  static const std::vector<KernelTable> tables = MakeTables();
  return tables;
}

const KernelTable* FindKernels(Isa isa) {
  for (const KernelTable& table : SupportedKernels()) {
    if (table.isa == isa) return &table;
  }
  return nullptr;
}

}  // namespace convgrad
