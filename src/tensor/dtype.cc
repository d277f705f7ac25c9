#include "tensor/dtype.h"

namespace convgrad {
namespace {

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat16, "float16", 2, "<f2", true, 10, 15},
    {DType::kBFloat16, "bfloat16", 2, "<V2", true, 7, 127},
    {DType::kFloat32, "float32", 4, "<f4", true, 23, 127},
    {DType::kFloat64, "float64", 8, "<f8", true, 52, 1023},
    {DType::kInt32, "int32", 4, "<i4", false, 0, 0},
    {DType::kInt64, "int64", 8, "<i8", false, 0, 0},
};

}  // namespace

std::span<const DTypeInfo> AllDTypes() {
  return kDTypes;
}

const DTypeInfo& InfoOf(DType dtype) {
  return kDTypes[static_cast<int>(dtype)];
}

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (name == info.name) return info.dtype;
  }
  return std::nullopt;
}

}  // namespace convgrad
