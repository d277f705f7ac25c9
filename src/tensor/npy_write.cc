// Writes .npy files, byte for byte as NumPy 1.24 and later do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tensor/npy.h"
#include "tensor/write_elements.h"

namespace convgrad {
namespace {

// NumPy leaves room for the first dimension to grow in place to this many digits.
constexpr int kGrowthDigits = 21;
constexpr int64_t kHeaderAlignment = 64;

// "(8, 3)", "(8,)", "()": as Python prints a tuple.
std::string PythonTuple(const Shape& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

const char* DescrOf(DType dtype, BFloat16Form bfloat16_as) {
  if (dtype != DType::kBFloat16) return InfoOf(dtype).npy_descr;
  switch (bfloat16_as) {
    case BFloat16Form::kV2: break;
    case BFloat16Form::kU2: return "<u2";
    case BFloat16Form::kF4: return "<f4";
  }
  return InfoOf(dtype).npy_descr;
}

}  // namespace

std::string NpyHeaderBytes(DType dtype, const Shape& shape, BFloat16Form bfloat16_as) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                 DescrOf(dtype, bfloat16_as), PythonTuple(shape));
  if (!shape.empty()) {
    text.append(static_cast<size_t>(kGrowthDigits) - fmt::formatted_size("{}", shape[0]), ' ');
  }
  // Magic, version and length take 10 bytes, the line feed one. NumPy pads an aligned header too.
  const int64_t unpadded = 10 + static_cast<int64_t>(text.size()) + 1;
  text.append(static_cast<size_t>(kHeaderAlignment - unpadded % kHeaderAlignment), ' ');
  text += '\n';
  const uint16_t length = static_cast<uint16_t>(text.size());
  const char prefix[] = {'\x93',
                         'N',
                         'U',
                         'M',
                         'P',
                         'Y',
                         1,
                         0,
                         static_cast<char>(length & 0xFF),
                         static_cast<char>(length >> 8)};
  return std::string(prefix, sizeof(prefix)) + text;
}

std::string WriteNpy(OutputFile& file, const Tensor& tensor, const NpyWriteOptions& options) {
  return WriteElements(file, NpyHeaderBytes(tensor.dtype(), tensor.shape(), options.bfloat16_as),
                       tensor, options);
}

std::string WriteNpy(const std::string& path, const Tensor& tensor,
                     const NpyWriteOptions& options) {
  OutputFile file(path, {.no_clobber = options.no_clobber});
  return WriteNpy(file, tensor, options);
}

}  // namespace convgrad
