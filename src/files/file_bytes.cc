#include "files/file_bytes.h"

#include <utility>

#include "tensor/npy_stream.h"
#include "tensor/read_bytes.h"

namespace convgrad {
std::shared_ptr<const FileBytes> FileBytes::Of(const std::shared_ptr<InputFile>& file,
                                               int64_t max_copied_bytes) {
  std::shared_ptr<FileBytes> bytes(new FileBytes(file));
  if (file->size() && *file->size() > kSmallFile) bytes->mapping_ = file->Map();
  if (!bytes->mapping_) {
    bytes->Read(max_copied_bytes);
    return bytes;
  }
  bytes->storage_ = bytes->mapping_;
  bytes->data_ = bytes->mapping_->data();
  bytes->size_ = bytes->mapping_->size();
  return bytes;
}

void FileBytes::Read(int64_t max_copied_bytes) {
  const NpyReadOptions limit = {.max_copied_bytes = max_copied_bytes};
  // One byte more than a file has shows its end.
  const int64_t first = file_->size() ? *file_->size() + 1 : kUnknownSize;
  GrownBytes grown =
      ReadGrowing([this](void* into, int64_t bytes) { return file_->Read(into, bytes); }, first,
                  INT64_MAX, [&](int64_t bytes) { CheckCopiedBytes(name(), bytes, limit); });
  size_ = grown.size;
  std::shared_ptr<std::byte[]> owner = std::move(grown.data);
  data_ = owner.get();
  storage_ = std::move(owner);
}

void FileBytes::ReadAhead(int64_t offset, int64_t bytes) const {
  if (mapping_) mapping_->ReadAhead(offset, bytes);
}

}  // namespace convgrad
