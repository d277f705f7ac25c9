#include "tensor/write_elements.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "base/deadline.h"
#include "base/file.h"
#include "base/memory.h"
#include "tensor/tensor_hash.h"

namespace convgrad {
namespace {

// Below, hashing is done before a thread would start.
constexpr int64_t kThreadWorthwhile = 1 << 20;

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

void WriteAll(OutputFile& file, std::string_view header, const Tensor& tensor,
              const NpyWriteOptions& options) {
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

std::string WriteElements(OutputFile& file, std::string_view header, const Tensor& tensor,
                          const NpyWriteOptions& options) {
  if (!options.hash) {
    WriteAll(file, header, tensor, options);
    return "";
  }
  BackgroundHash hash(tensor);
  WriteAll(file, header, tensor, options);
  return hash.Take();
}

}  // namespace convgrad
