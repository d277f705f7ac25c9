#include "kernels/kernel_table.h"

#include "kernels/dispatch.h"

namespace convgrad {
namespace {

struct IsaRow {
  Isa isa;
  const char* name;
  int64_t targets;  // the vector library's bits
  int vector_bytes;
};

constexpr IsaRow kIsas[] = {
    {Isa::kAvx512, "avx512", HWY_AVX3, 64},
    {Isa::kAvx2, "avx2", HWY_AVX2, 32},
    {Isa::kNeon, "neon", HWY_NEON, 16},
    {Isa::kScalar, "scalar", HWY_SCALAR, 8},
};

bool CanRun(const IsaRow& row) {
  return row.isa == Isa::kScalar || (hwy::SupportedTargets() & HWY_TARGETS & row.targets) != 0;
}

std::vector<KernelTable> MakeTables() {
  std::vector<KernelTable> tables;
  for (const IsaRow& row : kIsas) {
    if (!CanRun(row)) continue;
    KernelTable table{};
    table.isa = row.isa;
    table.vector_bytes = row.vector_bytes;
    FillIndirectGemmKernels(table);
    FillDepthwiseKernels(table);
    FillPackKernels(table);
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
