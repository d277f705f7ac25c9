// Writes .npy files, byte for byte as NumPy 1.24 and later do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include "base/deadline.h"
#include "base/memory.h"
#include "tensor/npy.h"
#include "tensor/tensor_hash.h"

namespace convgrad {
namespace {

constexpr int64_t kPieceBytes = 8 << 20;
constexpr int64_t kThreadWorthwhile = 1
                                      << 20;  // below, hashing is done before a thread would start
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

bool IsWidened(const Tensor& tensor, const NpyWriteOptions& options) {
  return tensor.dtype() == DType::kBFloat16 && options.bfloat16_as == BFloat16Form::kF4;
}

void WriteWidened(OutputFile& file, const Tensor& tensor) {
  const BFloat16* elements = tensor.data<BFloat16>();
  const int64_t piece = kPieceBytes / static_cast<int64_t>(sizeof(float));
  AlignedArray<float> wide(std::min(piece, tensor.num_elements()));
  for (int64_t done = 0; done < tensor.num_elements(); done += piece) {
    RetryUnlessStopped();
    const int64_t count = std::min(piece, tensor.num_elements() - done);
    std::transform(elements + done, elements + done + count, wide.data(),
                   [](BFloat16 value) { return ToFloat(value); });
    file.Write(wide.data(), count * static_cast<int64_t>(sizeof(float)));
  }
}

void WriteAsIs(OutputFile& file, const Tensor& tensor) {
  const std::byte* elements = static_cast<const std::byte*>(tensor.raw());
  for (int64_t done = 0; done < tensor.num_bytes(); done += kPieceBytes) {
    RetryUnlessStopped();
    file.Write(elements + done, std::min(kPieceBytes, tensor.num_bytes() - done));
  }
}

void WriteAll(OutputFile& file, const Tensor& tensor, const NpyWriteOptions& options) {
  const std::string header = NpyHeaderBytes(tensor.dtype(), tensor.shape(), options.bfloat16_as);
  const bool widened = IsWidened(tensor, options);
  file.Reserve(static_cast<int64_t>(header.size()) + tensor.num_bytes() * (widened ? 2 : 1));
  file.Write(header);
  widened ? WriteWidened(file, tensor) : WriteAsIs(file, tensor);
  file.Commit();
}

// The hash of `tensor`, computed on a thread of its own while this one does something else.
class BackgroundHash {
 public:
  explicit BackgroundHash(const Tensor& tensor) {
    if (tensor.num_bytes() >= kThreadWorthwhile && Start(tensor)) return;
    hash_ = DataHash(tensor);
  }
  ~BackgroundHash() {
    if (thread_.joinable()) thread_.join();
  }
  std::string Take() {
    if (thread_.joinable()) thread_.join();
    if (error_) std::rethrow_exception(error_);
    return hash_;
  }

 private:
  bool Start(const Tensor& tensor) {
    try {
      thread_ = std::thread([this, &tensor, deadline = CurrentDeadline()] {
        const ScopedDeadline same_deadline(deadline);
        try {
          hash_ = DataHash(tensor);
        } catch (...) {
          error_ = std::current_exception();
        }
      });
      return true;
    } catch (const std::system_error&) {
      return false;  // no more threads allowed: it takes a little longer
    }
  }

  std::string hash_;
  std::exception_ptr error_;
  std::thread thread_;
};

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
  if (!options.hash) {
    WriteAll(file, tensor, options);
    return "";
  }
  BackgroundHash hash(tensor);
  WriteAll(file, tensor, options);
  return hash.Take();
}

std::string WriteNpy(const std::string& path, const Tensor& tensor,
                     const NpyWriteOptions& options) {
  OutputFile file(path, {.no_clobber = options.no_clobber});
  return WriteNpy(file, tensor, options);
}

}  // namespace convgrad
