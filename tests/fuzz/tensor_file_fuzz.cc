// Any bytes as a file of tensors, whatever its format: refused as malformed, or tensors of which no
// one is larger than the bytes can hold, and whose own file is read back the same.
#include <cstring>

#include "files/tensor_file.h"
#include "fuzz/fuzzing.h"

namespace convgrad::fuzzing {
namespace {

constexpr int64_t kMostInflation = 1032;  // of deflated bytes

void ExpectReadBack(const Scratch& scratch, const Tensor& tensor) {
  const std::string path = scratch.Write("copy.safetensors", "");
  WriteTensor(ParseTensorTarget(path, "copy"), tensor);
  const Tensor again = ReadTensor(path).tensor;
  Expect(again.dtype() == tensor.dtype() && again.shape() == tensor.shape(), "not read back");
  const auto size = static_cast<size_t>(tensor.num_bytes());
  Expect(size == 0 || std::memcmp(again.raw(), tensor.raw(), size) == 0,
         "other elements were read back");
}

// True if all tensors of the container were accepted.
bool CheckAll(const Scratch& scratch, const TensorFile& opened, int64_t file_bytes,
              const NpyReadOptions& options) {
  bool all = true;
  for (size_t at = 0; at < opened.container->names().size(); ++at) {
    TensorHeader header;
    Tensor tensor;
    const bool has_header = Accepts([&] { header = opened.container->Header(at, options); });
    const bool accepted = Accepts([&] { tensor = opened.container->Read(at, options); });
    Expect(has_header || !accepted, "a tensor whose header is refused");
    all &= accepted;
    if (!accepted) continue;
    Expect(header.shape == tensor.shape() && header.dtype == tensor.dtype(), "another header");
    Expect(tensor.num_bytes() <= kMostInflation * file_bytes, "more elements than bytes");
    ExpectReadBack(scratch, tensor);
  }
  return all;
}

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  NpyReadOptions options;
  switch (bytes.Choose(4)) {
    case 1: options.view_as = DType::kFloat16; break;
    case 2: options.view_as = DType::kBFloat16; break;
    case 3: options.allow_trailing = true; break;
    default: break;
  }
  const auto size = static_cast<int64_t>(bytes.rest().size());
  const std::string path = scratch.Write("any", bytes.rest());
  TensorFile opened;
  if (!Accepts([&] { opened = OpenTensorFile(path, options); })) return false;
  if (opened.container) return CheckAll(scratch, opened, size, options);
  return Accepts([&] { ExpectReadBack(scratch, ReadTensor(path, options).tensor); });
}

}  // namespace convgrad::fuzzing
