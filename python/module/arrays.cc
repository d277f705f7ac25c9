#include "arrays.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace convgrad::python {
namespace {

namespace nb = nanobind;
using nb::dlpack::dtype_code;

nb::dlpack::dtype ForeignType(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  const dtype_code code = dtype == DType::kBFloat16 ? dtype_code::Bfloat
                          : info.is_float           ? dtype_code::Float
                                                    : dtype_code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * info.bytes), /*lanes=*/1};
}

bool Is16BitInteger(nb::dlpack::dtype type) {
  const auto code = static_cast<dtype_code>(type.code);
  return type.bits == 16 && (code == dtype_code::UInt || code == dtype_code::Int);
}

std::optional<DType> OurType(nb::dlpack::dtype type, bool is_bfloat16) {
  if (is_bfloat16 && Is16BitInteger(type)) return DType::kBFloat16;
  for (const DTypeInfo& info : AllDTypes()) {
    if (ForeignType(info.dtype) == type) return info.dtype;
  }
  return std::nullopt;
}

std::string Text(nb::handle object) {
  return nb::str(object).c_str();
}

[[noreturn]] void RefuseArray(const std::string& name, nb::handle array) {
  ThrowData("operand/array", name,
            fmt::format("{}{} is no array of numbers in the memory of the CPU", Text(array.type()),
                        nb::hasattr(array, "dtype") ? " of " + Text(array.attr("dtype")) : ""),
            "give an array of NumPy, or what has __dlpack__() or a buffer");
}

Shape ShapeOf(const std::string& name, const auto& array) {
  Shape shape;
  for (size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<int64_t>(array.shape(i)));
  if (std::ssize(shape) > kMaxRank) {
    ThrowData("operand/array", name, fmt::format("has {} dimensions", shape.size()),
              fmt::format("the most is {}", kMaxRank));
  }
  return shape;
}

}  // namespace

BorrowedArray::BorrowedArray(const std::string& name, nb::handle array, bool is_bfloat16) {
  if (!nb::try_cast(array, array_)) RefuseArray(name, array);
  const std::optional<DType> dtype = OurType(array_.dtype(), is_bfloat16);
  if (!dtype) {
    ThrowData("dtype/unsupported", name,
              fmt::format("holds {}", nb::hasattr(array, "dtype") ? Text(array.attr("dtype"))
                                                                  : Text(array.type())),
              "use float16, bfloat16, float32 or float64");
  }
  const Shape shape = ShapeOf(name, array_);
  // The caller's own array lives as long as this: the tensor need not hold it.
  tensor_ = Tensor(*dtype, shape, nullptr, array_.data());
  const auto address = reinterpret_cast<uintptr_t>(array_.data());
  if (address % static_cast<uintptr_t>(InfoOf(*dtype).bytes) == 0) return;
  Tensor aligned(*dtype, shape);
  std::memcpy(aligned.mutable_raw(), array_.data(), static_cast<size_t>(aligned.num_bytes()));
  tensor_ = std::move(aligned);
}

nb::object ToNumpy(Tensor tensor) {
  nb::dlpack::dtype type = ForeignType(tensor.dtype());
  if (tensor.dtype() == DType::kBFloat16) type.code = static_cast<uint8_t>(dtype_code::UInt);
  const std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  auto* const owned = new Tensor(std::move(tensor));
  const nb::capsule owner(owned,
                          [](void* memory) noexcept { delete static_cast<Tensor*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy>(owned->mutable_raw(), shape.size(), shape.data(), owner,
                                         /*strides=*/nullptr, type));
}

}  // namespace convgrad::python
