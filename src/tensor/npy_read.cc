// Reads .npy files: finds the header, checks it against the file, and brings the elements into C
// order and this machine's byte order with no copy where none is needed.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/resources.h"
#include "tensor/foreign_format.h"
#include "tensor/npy.h"
#include "tensor/npy_header.h"
#include "tensor/npy_stream.h"
#include "tensor/read_bytes.h"
#include "tensor/reorder.h"

namespace convgrad {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kVersionEnd = 8;  // magic and two version bytes

using Bytes = AlignedBytes;

[[noreturn]] void ThrowNotNpy(const std::string& name, std::string_view start) {
  const std::string foreign = ForeignFormatOf(start);
  const std::string fix = foreign.empty() ? "write it with numpy.save" : foreign;
  ThrowNpy(name, "npy/not-npy", 0, "the file does not start with \\x93NUMPY", fix);
}

[[noreturn]] void ThrowTruncatedHeader(const std::string& name, int64_t offset) {
  ThrowNpy(name, "npy/truncated-header", offset, "the file ends inside the header",
           "copy or write the file again");
}

// Reads `count` more bytes of the header onto `start`.
void ReadHeaderBytes(const NpySource& source, int64_t count, std::string& start) {
  const size_t before = start.size();
  start.resize(before + count);
  const int64_t got = source.read(start.data() + before, count);
  start.resize(before + got);
}

// The format's major version, after magic and version have been checked. `start` gets all bytes
// read.
int ReadVersion(const NpySource& source, std::string& start) {
  ReadHeaderBytes(source, kVersionEnd, start);
  if (!start.starts_with(kMagic)) {
    ReadHeaderBytes(source, kForeignBytes, start);
    ThrowNotNpy(source.name, start);
  }
  const int64_t size = static_cast<int64_t>(start.size());
  if (size < kVersionEnd) ThrowTruncatedHeader(source.name, size);
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    ThrowNpy(source.name, "npy/version", 6,
             fmt::format("format version {}.{} is none of 1.0, 2.0, 3.0", major, minor),
             "write the file again with numpy.save");
  }
  return major;
}

[[noreturn]] void ThrowShortData(const std::string& name, const NpyHeader& header, int64_t bytes) {
  ThrowNpy(name, "npy/short-data", header.data_offset + bytes,
           fmt::format("the file ends after {} of {} bytes of data", bytes, NpyDataBytes(header)),
           "copy or write the file again");
}

[[noreturn]] void ThrowTrailingData(const std::string& name, const NpyHeader& header) {
  ThrowNpy(name, "npy/trailing-data", header.data_offset + NpyDataBytes(header),
           "bytes follow the array", "if that is meant, give --allow-trailing");
}

NpySource SourceOf(InputFile& file) {
  return {file.name(), [&file](void* into, int64_t bytes) { return file.Read(into, bytes); }};
}

// The data of a file whose size is known and was checked.
Bytes ReadKnownSize(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  try {
    return ReadNpyData(SourceOf(file), header, options);
  } catch (const Error&) {
    file.CheckUnchanged();
    throw;
  }
}

// The data of a pipe.
Bytes ReadStream(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  const int64_t claimed = NpyDataBytes(header);
  GrownBytes grown = ReadGrowing(SourceOf(file).read, kUnknownSize, claimed, [&](int64_t bytes) {
    CheckCopiedBytes(file.name(), bytes, options);
  });
  if (grown.size < claimed) ThrowShortData(file.name(), header, grown.size);
  std::byte extra;
  if (!options.allow_trailing && file.Read(&extra, 1) > 0) ThrowTrailingData(file.name(), header);
  return std::move(grown.data);
}

// A tensor in C order and our byte order from `data` as the file holds it.
Tensor Reordered(const NpyHeader& header, const std::byte* data) {
  Tensor tensor(header.dtype, header.shape);
  std::byte* target = static_cast<std::byte*>(tensor.mutable_raw());
  const int element_bytes = InfoOf(header.dtype).bytes;
  if (header.fortran_order) {
    CopyFromFortranOrder(header.shape, element_bytes, header.swapped, data, target);
    return tensor;
  }
  std::memcpy(target, data, static_cast<size_t>(tensor.num_bytes()));
  if (header.swapped) SwapBytes(element_bytes, tensor.num_elements(), target);
  return tensor;
}

Tensor FromMapping(const std::shared_ptr<const MappedFile>& mapping, const InputFile& file,
                   const NpyHeader& header, const NpyReadOptions& options) {
  const ReadRows rows = header.fortran_order ? ReadRows() : options.ahead;
  const ReadRows::Stretch read = rows.BytesOf(header.shape, NpyDataBytes(header));
  mapping->ReadAhead(header.data_offset + read.offset, read.bytes);
  const std::byte* data = mapping->data() + header.data_offset;
  const bool aligned = header.data_offset % InfoOf(header.dtype).bytes == 0;
  if (!header.fortran_order && !header.swapped && aligned) {
    return Tensor(header.dtype, header.shape, mapping, data);
  }
  CheckCopiedBytes(file.name(), NpyDataBytes(header), options);
  return Reordered(header, data);
}

Tensor ReadTensor(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  if (!file.size()) {
    Bytes data = ReadStream(file, header, options);
    CheckNpyLimits(file.name(), header);
    return NpyFromMemory(file.name(), std::move(data), header, options);
  }
  CheckNpySize(file.name(), header, *file.size(), options);
  CheckNpyLimits(file.name(), header);
  if (*file.size() > kSmallFile) {
    if (const auto mapping = file.Map()) return FromMapping(mapping, file, header, options);
  }
  return NpyFromMemory(file.name(), ReadKnownSize(file, header, options), header, options);
}

}  // namespace

NpyHeader ReadNpyHeader(const NpySource& source, const NpyReadOptions& options) {
  std::string start;
  const int major = ReadVersion(source, start);
  const int length_bytes = major == 1 ? 2 : 4;
  const int64_t text_offset = kVersionEnd + length_bytes;
  ReadHeaderBytes(source, length_bytes, start);
  if (static_cast<int64_t>(start.size()) < text_offset)
    ThrowTruncatedHeader(source.name, start.size());
  uint32_t length = 0;
  std::memcpy(&length, start.data() + kVersionEnd, length_bytes);
  if (length > kMaxNpyHeaderBytes) {
    ThrowNpy(
        source.name, "npy/header-too-large", kVersionEnd,
        fmt::format("the header claims {} bytes, over the limit of {}", length, kMaxNpyHeaderBytes),
        "write the file again with numpy.save");
  }
  ReadHeaderBytes(source, length, start);
  const int64_t end = static_cast<int64_t>(start.size());
  if (end < text_offset + length) ThrowTruncatedHeader(source.name, end);
  return ParseNpyHeader(std::string_view(start).substr(text_offset),
                        {source.name, major, text_offset}, options);
}

int64_t NpyDataBytes(const NpyHeader& header) {
  int64_t bytes = InfoOf(header.dtype).bytes;  // the product was checked when the header was parsed
  for (const int64_t dimension : header.shape) bytes *= dimension;
  return bytes;
}

void CheckNpySize(const std::string& name, const NpyHeader& header, int64_t size,
                  const NpyReadOptions& options) {
  const int64_t present = size - header.data_offset;
  const int64_t claimed = NpyDataBytes(header);
  if (present < claimed) ThrowShortData(name, header, std::max<int64_t>(present, 0));
  if (present > claimed && !options.allow_trailing) ThrowTrailingData(name, header);
}

void CheckNpyLimits(const std::string& name, const NpyHeader& header) {
  const bool wide = std::any_of(header.shape.begin(), header.shape.end(),
                                [](int64_t size) { return size > kMaxDimension; });
  if (!wide && NpyDataBytes(header) / InfoOf(header.dtype).bytes <= kMaxElements) return;
  ThrowData("npy/shape", name,
            fmt::format("shape {} is beyond the limit of {} per dimension and {} in all",
                        ToString(header.shape), kMaxDimension, kMaxElements),
            "split the tensor");
}

void CheckCopiedBytes(const std::string& name, int64_t bytes, const NpyReadOptions& options) {
  if (options.max_copied_bytes == 0 || bytes <= options.max_copied_bytes) return;
  ThrowIo("memory/limit", name,
          fmt::format("it can't be mapped, and a copy of {} is over the limit of {}",
                      FormatExactBytes(bytes), FormatExactBytes(options.max_copied_bytes)),
          "raise --max-memory");
}

Bytes ReadNpyData(const NpySource& source, const NpyHeader& header, const NpyReadOptions& options) {
  const int64_t claimed = NpyDataBytes(header);
  CheckCopiedBytes(source.name, claimed, options);
  Bytes data = AllocateBytes(static_cast<size_t>(claimed));
  const int64_t got = ReadPieces(source.read, data.get(), claimed);
  if (got < claimed) ThrowShortData(source.name, header, got);
  return data;
}

Tensor NpyFromMemory(const std::string& name, Bytes data, const NpyHeader& header,
                     const NpyReadOptions& options) {
  if (header.fortran_order) {
    CheckCopiedBytes(name, 2 * NpyDataBytes(header), options);
    return Reordered(header, data.get());
  }
  const int element_bytes = InfoOf(header.dtype).bytes;
  if (header.swapped) SwapBytes(element_bytes, NpyDataBytes(header) / element_bytes, data.get());
  std::shared_ptr<std::byte[]> storage = std::move(data);
  const std::byte* elements = storage.get();
  return Tensor(header.dtype, header.shape, std::move(storage), elements);
}

NpyArray ReadNpy(const std::shared_ptr<InputFile>& file, const NpyReadOptions& options) {
  NpyArray array;
  array.header = ReadNpyHeader(SourceOf(*file), options);
  array.tensor = ReadTensor(*file, array.header, options);
  array.source = file;
  file->CheckUnchanged();
  return array;
}

NpyArray ReadNpy(const std::string& path, const NpyReadOptions& options) {
  return ReadNpy(InputFile::Open(path), options);
}

NpyHeader ReadNpyHeader(InputFile& file, const NpyReadOptions& options) {
  NpyHeader header = ReadNpyHeader(SourceOf(file), options);
  if (file.size()) CheckNpySize(file.name(), header, *file.size(), options);
  CheckNpyLimits(file.name(), header);
  return header;
}

NpyHeader ReadNpyHeader(const std::string& path, const NpyReadOptions& options) {
  return ReadNpyHeader(*InputFile::Open(path), options);
}

}  // namespace convgrad
