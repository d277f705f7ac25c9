#include "files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "files/safetensors_header.h"
#include "tensor/npy_stream.h"

namespace convgrad {
namespace {

static_assert(std::endian::native == std::endian::little);

// Where the data start: behind the length and the header, which must be there.
int64_t FindData(const FileBytes& bytes) {
  const auto truncated = [&](const std::string& why) {
    ThrowData("safetensors/truncated", bytes.name(), "safetensors/truncated: " + why, kCopyAgain);
  };
  if (bytes.size() < kSafetensorsLengthBytes) truncated("the file has no whole length field");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    ThrowData("safetensors/header-too-large", bytes.name(),
              fmt::format("the header claims {} bytes, over the limit of {}", length,
                          kMaxSafetensorsHeaderBytes),
              "is it a .safetensors file?");
  }
  const int64_t end = kSafetensorsLengthBytes + static_cast<int64_t>(length);
  if (end > bytes.size()) {
    truncated(fmt::format("the header claims {} bytes of a file of {}", length, bytes.size()));
  }
  return end;
}

class SafetensorsFile final : public TensorContainer {
 public:
  SafetensorsFile(std::shared_ptr<const FileBytes> bytes, const NpyReadOptions& options)
      : TensorContainer(bytes->name()), bytes_(std::move(bytes)), data_(FindData(*bytes_)) {
    const std::string_view text =
        bytes_->text(kSafetensorsLengthBytes, data_ - kSafetensorsLengthBytes);
    entries_ = ParseSafetensorsHeader(label(), text, bytes_->size() - data_, options);
    std::vector<std::string> names;
    for (const SafetensorsEntry& entry : entries_) names.push_back(entry.name);
    SetNames(std::move(names));
  }

  TensorHeader Header(size_t at, const NpyReadOptions& options) const override {
    const SafetensorsEntry& entry = entries_[at];
    TensorHeader header;
    header.dtype = ReadableType(LabelOf(at), entry, options);
    CheckLimits(at);
    header.shape = entry.shape;
    header.is_copied = !IsAligned(at, header.dtype);
    header.stored_type = entry.dtype;
    header.stored_in = fmt::format("data at byte {}", data_ + entry.begin);
    return header;
  }

  Tensor Read(size_t at, const NpyReadOptions& options) const override {
    const TensorHeader header = Header(at, options);
    const SafetensorsEntry& entry = entries_[at];
    const std::byte* data = bytes_->data() + data_ + entry.begin;
    const int64_t size = entry.end - entry.begin;
    const ReadRows::Stretch read = options.ahead.BytesOf(header.shape, size);
    bytes_->ReadAhead(data_ + entry.begin + read.offset, read.bytes);
    if (!header.is_copied) return Tensor(header.dtype, header.shape, bytes_->storage(), data);
    CheckCopiedBytes(LabelOf(at), size, options);
    Tensor tensor(header.dtype, header.shape);
    std::memcpy(tensor.mutable_raw(), data, static_cast<size_t>(size));
    return tensor;
  }

 private:
  bool IsAligned(size_t at, DType dtype) const {
    return (data_ + entries_[at].begin) % InfoOf(dtype).bytes == 0;
  }

  // As those of .npy files.
  void CheckLimits(size_t at) const {
    const Shape& shape = entries_[at].shape;
    const bool wide =
        std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size > kMaxDimension; });
    const bool is_sound = !wide && std::ssize(shape) <= kMaxRank &&
                          entries_[at].end - entries_[at].begin <= kMaxElements;
    if (is_sound) return;
    ThrowData("safetensors/shape", LabelOf(at),
              fmt::format("its shape is beyond the limits of {} dimensions, {} each and {} in all",
                          kMaxRank, kMaxDimension, kMaxElements),
              "split the tensor");
  }

  std::shared_ptr<const FileBytes> bytes_;
  int64_t data_;  // where they start
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace

std::shared_ptr<const TensorContainer> OpenSafetensors(std::shared_ptr<const FileBytes> bytes,
                                                       const NpyReadOptions& options) {
  return std::make_shared<const SafetensorsFile>(std::move(bytes), options);
}

}  // namespace convgrad
