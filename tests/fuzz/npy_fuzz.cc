// Any bytes as a .npy file, followed by zeros if it shall be one that is mapped: refused as
// malformed, or a tensor whose bytes are all there and whose own file is read back the same.
#include <cstring>

#include "fuzz/fuzzing.h"
#include "tensor/npy.h"

namespace convgrad::fuzzing {
namespace {

// A header of 128 bytes and 130 x 128 elements of four bytes: more than 64 KiB, from which on files
// are mapped.
constexpr size_t kMappedBytes = 128 + 130 * 128 * 4;

}  // namespace

bool Check(Bytes bytes) {
  static const Scratch scratch;
  NpyReadOptions options;
  const unsigned choice = bytes.Choose(8);
  switch (choice % 4) {
    case 1: options.view_as = DType::kFloat16; break;
    case 2: options.view_as = DType::kBFloat16; break;
    case 3: options.allow_trailing = true; break;
    default: break;
  }
  std::string file(bytes.rest());
  if (choice >= 4 && file.size() < kMappedBytes) file.resize(kMappedBytes);
  const std::string path = scratch.Write("any.npy", file);
  NpyArray array;
  NpyHeader header;
  const bool accepted = Accepts([&] { array = ReadNpy(path, options); });
  Expect(accepted == Accepts([&] { header = ReadNpyHeader(path, options); }),
         "the header alone gets another verdict than the file");
  if (!accepted) return false;
  const Tensor& tensor = array.tensor;
  Expect(header.shape == tensor.shape() && header.dtype == tensor.dtype(), "another header");
  Expect(header.data_offset + tensor.num_bytes() <= static_cast<int64_t>(file.size()),
         "more elements than bytes");

  const std::string elements(static_cast<const char*>(tensor.raw()),
                             static_cast<size_t>(tensor.num_bytes()));
  const std::string copy =
      scratch.Write("copy.npy", NpyHeaderBytes(tensor.dtype(), tensor.shape()) + elements);
  NpyReadOptions typed;
  typed.view_as = tensor.dtype();
  const Tensor again = ReadNpy(copy, typed).tensor;
  Expect(again.dtype() == tensor.dtype() && again.shape() == tensor.shape(), "not read back");
  Expect(elements.empty() || std::memcmp(again.raw(), elements.data(), elements.size()) == 0,
         "other elements were read back");
  return true;
}

}  // namespace convgrad::fuzzing
