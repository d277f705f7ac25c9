// The table of element types, and the only switch over them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/float16.h"

namespace convgrad {

enum class DType : uint8_t { kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64 };

struct DTypeInfo {
  DType dtype;
  const char* name;       // as on the command line and in reports
  int bytes;              // of one element
  const char* npy_descr;  // what NumPy (with ml_dtypes) writes on a little-endian machine
  bool is_float;          // may be an operand or a result; the others only hold sizes
  int fraction_bits;      // explicit bits of the significand
  int max_exponent;       // of a finite number's leading bit; the least of a normal one is 1 - this
};

// All rows, in the order of the enum.
std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& InfoOf(DType dtype);
std::optional<DType> ParseDType(std::string_view name);

template <class T>
struct TypeTag {
  using Type = T;
};

// f(TypeTag<T>{}) with the storage type of `dtype`, a floating-point one:
// Float16, BFloat16, float or double.
template <class F>
decltype(auto) VisitFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat16: return std::forward<F>(f)(TypeTag<Float16>{});
    case DType::kBFloat16: return std::forward<F>(f)(TypeTag<BFloat16>{});
    case DType::kFloat32: return std::forward<F>(f)(TypeTag<float>{});
    case DType::kFloat64: return std::forward<F>(f)(TypeTag<double>{});
    case DType::kInt32:
    case DType::kInt64: break;
  }
  ThrowInternal("an integer type where a floating-point type is needed");
}

// The same for every type, with int32_t or int64_t for the integers.
template <class F>
decltype(auto) VisitStored(DType dtype, F&& f) {
  if (dtype == DType::kInt32) return std::forward<F>(f)(TypeTag<int32_t>{});
  if (dtype == DType::kInt64) return std::forward<F>(f)(TypeTag<int64_t>{});
  return VisitFloat(dtype, std::forward<F>(f));
}

// Exact widening to double (of an int64_t: to the nearest), and rounding once from it, for every
// storage type.
inline double Widen(Float16 value) {
  return ToFloat(value);
}
inline double Widen(BFloat16 value) {
  return ToFloat(value);
}
inline double Widen(float value) {
  return value;
}
inline double Widen(double value) {
  return value;
}
inline double Widen(int32_t value) {
  return value;
}
inline double Widen(int64_t value) {
  return static_cast<double>(value);
}

template <class Stored>
Stored Narrow(double value);
template <>
inline Float16 Narrow<Float16>(double value) {
  return ToFloat16(value);
}
template <>
inline BFloat16 Narrow<BFloat16>(double value) {
  return ToBFloat16(value);
}
template <>
inline float Narrow<float>(double value) {
  return static_cast<float>(value);
}
template <>
inline double Narrow<double>(double value) {
  return value;
}

}  // namespace convgrad
