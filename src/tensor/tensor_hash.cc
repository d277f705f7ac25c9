#include "tensor/tensor_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace convgrad {

class Digest {
 public:
  Digest() {
    // The machine's configuration has nothing to say about a digest, and takes time to read.
    static const bool ready = OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;
    if (ready) context_.reset(EVP_MD_CTX_new());
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
      ThrowInternal("SHA-256 is not available");
    }
  }
  void Update(const void* from, int64_t bytes) {
    if (EVP_DigestUpdate(context_.get(), from, static_cast<size_t>(bytes)) != 1) {
      ThrowInternal("SHA-256 failed");
    }
  }
  std::string Finish() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_.get(), digest, &size) != 1) ThrowInternal("SHA-256 failed");
    return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
  }

 private:
  struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, FreeContext> context_;
};

struct DataHasher::State {
  Digest digest;
};

DataHasher::DataHasher() : state_(std::make_unique<State>()) {}

DataHasher::DataHasher(DType dtype, const Shape& shape) : state_(std::make_unique<State>()) {
  const std::string line = fmt::format("{} {}\n", InfoOf(dtype).name, fmt::join(shape, ","));
  state_->digest.Update(line.data(), static_cast<int64_t>(line.size()));
}

DataHasher::~DataHasher() = default;
DataHasher::DataHasher(DataHasher&&) noexcept = default;
DataHasher& DataHasher::operator=(DataHasher&&) noexcept = default;

void DataHasher::Update(const void* elements, int64_t bytes) {
  state_->digest.Update(elements, bytes);
}

std::string DataHasher::Finish() {
  return state_->digest.Finish();
}

std::string DataHash(const Tensor& tensor) {
  DataHasher hasher(tensor.dtype(), tensor.shape());
  const char* elements = static_cast<const char*>(tensor.raw());
  for (int64_t done = 0; done < tensor.num_bytes(); done += kPieceBytes) {
    RetryUnlessStopped();
    hasher.Update(elements + done, std::min(kPieceBytes, tensor.num_bytes() - done));
  }
  return hasher.Finish();
}

std::string SampleHash(const Tensor& tensor) {
  constexpr int64_t kPieces = 1024, kSampleBytes = 4096;
  const int64_t bytes = tensor.num_bytes();
  if (bytes <= kPieces * kSampleBytes) return DataHash(tensor);
  DataHasher hasher(tensor.dtype(), tensor.shape());
  const char* elements = static_cast<const char*>(tensor.raw());
  for (int64_t piece = 0; piece < kPieces; ++piece) {
    RetryUnlessStopped();
    hasher.Update(elements + bytes / kPieces * piece, kSampleBytes);
  }
  return hasher.Finish();
}

std::string Sha256(const void* from, int64_t bytes) {
  Digest digest;
  digest.Update(from, bytes);
  return digest.Finish();
}

}  // namespace convgrad
