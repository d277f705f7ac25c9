// Reads .npy files: finds the header, checks it against the file, and brings the elements into C
// order and this machine's byte order with no copy where none is needed.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/resources.h"
#include "tensor/npy.h"
#include "tensor/npy_header.h"
#include "tensor/reorder.h"

namespace convgrad {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kVersionEnd = 8;        // magic and two version bytes
constexpr int64_t kSmallFile = 64 << 10;  // reading is cheaper than mapping up to here
constexpr int64_t kReadBytes = 8 << 20;   // between two looks at a request to stop
constexpr int64_t kFirstPiece = 1 << 20;  // of an array whose file has no known size

using Bytes = std::unique_ptr<std::byte[], FreeAligned>;

struct ForeignFormat {
  std::string_view start;
  const char* what;
};

constexpr ForeignFormat kForeignFormats[] = {
    {std::string_view("PK\x03\x04"), "this is a zip archive (.npz?): extract the .npy file first"},
    {std::string_view("PK\x05\x06"), "this is an empty zip archive"},
    {std::string_view("\x1F\x8B"), "this is gzip data: decompress it first"},
    {std::string_view("\x80\x02"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x03"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x04"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x80\x05"), "this is a Python pickle, which is never loaded"},
    {std::string_view("\x89HDF"), "this is an HDF5 file"},
};

[[noreturn]] void ThrowNotNpy(const std::string& name, std::string_view start) {
  std::string fix = "write it with numpy.save";
  for (const ForeignFormat& format : kForeignFormats) {
    if (start.starts_with(format.start)) fix = format.what;
  }
  ThrowNpy(name, "npy/not-npy", 0, "the file does not start with \\x93NUMPY", fix);
}

[[noreturn]] void ThrowTruncatedHeader(const std::string& name, int64_t offset) {
  ThrowNpy(name, "npy/truncated-header", offset, "the file ends inside the header",
           "copy or write the file again");
}

// Reads `count` more bytes of the header onto `start`.
void ReadHeaderBytes(InputFile& file, int64_t count, std::string& start) {
  const size_t before = start.size();
  start.resize(before + count);
  const int64_t got = file.Read(start.data() + before, count);
  start.resize(before + got);
}

// The format's major version, after magic and version have been checked. `start` gets all bytes
// read.
int ReadVersion(InputFile& file, std::string& start) {
  ReadHeaderBytes(file, kVersionEnd, start);
  if (!start.starts_with(kMagic)) ThrowNotNpy(file.name(), start);
  const int64_t size = static_cast<int64_t>(start.size());
  if (size < kVersionEnd) ThrowTruncatedHeader(file.name(), size);
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    ThrowNpy(file.name(), "npy/version", 6,
             fmt::format("format version {}.{} is none of 1.0, 2.0, 3.0", major, minor),
             "write the file again with numpy.save");
  }
  return major;
}

// Reads magic, version and header, and parses them.
NpyHeader ReadHeader(InputFile& file, const NpyReadOptions& options) {
  std::string start;
  const int major = ReadVersion(file, start);
  const int length_bytes = major == 1 ? 2 : 4;
  const int64_t text_offset = kVersionEnd + length_bytes;
  ReadHeaderBytes(file, length_bytes, start);
  if (static_cast<int64_t>(start.size()) < text_offset)
    ThrowTruncatedHeader(file.name(), start.size());
  uint32_t length = 0;
  std::memcpy(&length, start.data() + kVersionEnd, length_bytes);
  if (length > kMaxNpyHeaderBytes) {
    ThrowNpy(
        file.name(), "npy/header-too-large", kVersionEnd,
        fmt::format("the header claims {} bytes, over the limit of {}", length, kMaxNpyHeaderBytes),
        "write the file again with numpy.save");
  }
  ReadHeaderBytes(file, length, start);
  const int64_t end = static_cast<int64_t>(start.size());
  if (end < text_offset + length) ThrowTruncatedHeader(file.name(), end);
  return ParseNpyHeader(std::string_view(start).substr(text_offset),
                        {file.name(), major, text_offset}, options);
}

int64_t DataBytes(const NpyHeader& header) {
  int64_t bytes = InfoOf(header.dtype).bytes;  // the product was checked when the header was parsed
  for (const int64_t dimension : header.shape) bytes *= dimension;
  return bytes;
}

[[noreturn]] void ThrowShortData(const std::string& name, const NpyHeader& header, int64_t bytes) {
  ThrowNpy(name, "npy/short-data", header.data_offset + bytes,
           fmt::format("the file ends after {} of {} bytes of data", bytes, DataBytes(header)),
           "copy or write the file again");
}

[[noreturn]] void ThrowTrailingData(const std::string& name, const NpyHeader& header) {
  ThrowNpy(name, "npy/trailing-data", header.data_offset + DataBytes(header),
           "bytes follow the array", "if that is meant, give --allow-trailing");
}

// The header's claims against a known file size.
void CheckFileSize(const InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  const int64_t present = *file.size() - header.data_offset;
  const int64_t claimed = DataBytes(header);
  if (present < claimed) ThrowShortData(file.name(), header, std::max<int64_t>(present, 0));
  if (present > claimed && !options.allow_trailing) ThrowTrailingData(file.name(), header);
}

// Sizes that the file bears out but nothing here can compute with.
void CheckLimits(const std::string& name, const NpyHeader& header) {
  const bool wide = std::any_of(header.shape.begin(), header.shape.end(),
                                [](int64_t size) { return size > kMaxDimension; });
  if (!wide && DataBytes(header) / InfoOf(header.dtype).bytes <= kMaxElements) return;
  ThrowData("npy/shape", name,
            fmt::format("shape {} is beyond the limit of {} per dimension and {} in all",
                        ToString(header.shape), kMaxDimension, kMaxElements),
            "split the tensor");
}

void CheckCopy(const std::string& name, int64_t bytes, const NpyReadOptions& options) {
  if (options.max_copied_bytes == 0 || bytes <= options.max_copied_bytes) return;
  ThrowIo("memory/limit", name,
          fmt::format("it can't be mapped, and a copy of {} is over the limit of {}",
                      FormatExactBytes(bytes), FormatExactBytes(options.max_copied_bytes)),
          "raise --max-memory");
}

// Reads up to `bytes` in pieces, so that a request to stop is heard.
int64_t ReadPieces(InputFile& file, std::byte* into, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    RetryUnlessStopped();
    const int64_t piece = std::min(bytes - done, kReadBytes);
    const int64_t got = file.Read(into + done, piece);
    done += got;
    if (got < piece) break;
  }
  return done;
}

// The data of a file whose size is known and was checked.
Bytes ReadKnownSize(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  const int64_t claimed = DataBytes(header);
  CheckCopy(file.name(), claimed, options);
  Bytes data = AllocateBytes(static_cast<size_t>(claimed));
  const int64_t got = ReadPieces(file, data.get(), claimed);
  if (got < claimed) {
    file.CheckUnchanged();
    ThrowShortData(file.name(), header, got);
  }
  return data;
}

// The data of a pipe: memory grows with what has really come, never with what the header claims.
Bytes ReadStream(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  const int64_t claimed = DataBytes(header);
  int64_t capacity = std::min(claimed, kFirstPiece);
  Bytes data = AllocateBytes(static_cast<size_t>(capacity));
  int64_t got = ReadPieces(file, data.get(), capacity);
  while (got == capacity && capacity < claimed) {
    const int64_t larger = std::min(claimed, 2 * capacity);
    CheckCopy(file.name(), larger, options);
    Bytes grown = AllocateBytes(static_cast<size_t>(larger));
    std::memcpy(grown.get(), data.get(), static_cast<size_t>(got));
    data = std::move(grown);
    got += ReadPieces(file, data.get() + got, larger - capacity);
    capacity = larger;
  }
  if (got < claimed) ThrowShortData(file.name(), header, got);
  std::byte extra;
  if (!options.allow_trailing && file.Read(&extra, 1) > 0) ThrowTrailingData(file.name(), header);
  return data;
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
  const std::byte* data = mapping->data() + header.data_offset;
  const bool aligned = header.data_offset % InfoOf(header.dtype).bytes == 0;
  if (!header.fortran_order && !header.swapped && aligned) {
    return Tensor(header.dtype, header.shape, mapping, data);
  }
  CheckCopy(file.name(), DataBytes(header), options);
  return Reordered(header, data);
}

Tensor FromMemory(const std::string& name, Bytes data, const NpyHeader& header,
                  const NpyReadOptions& options) {
  if (header.fortran_order) {
    CheckCopy(name, 2 * DataBytes(header), options);
    return Reordered(header, data.get());
  }
  const int element_bytes = InfoOf(header.dtype).bytes;
  if (header.swapped) SwapBytes(element_bytes, DataBytes(header) / element_bytes, data.get());
  std::shared_ptr<std::byte[]> storage = std::move(data);
  const std::byte* elements = storage.get();
  return Tensor(header.dtype, header.shape, std::move(storage), elements);
}

Tensor ReadTensor(InputFile& file, const NpyHeader& header, const NpyReadOptions& options) {
  if (!file.size()) {
    Bytes data = ReadStream(file, header, options);
    CheckLimits(file.name(), header);
    return FromMemory(file.name(), std::move(data), header, options);
  }
  CheckFileSize(file, header, options);
  CheckLimits(file.name(), header);
  if (*file.size() > kSmallFile) {
    if (const auto mapping = file.Map()) return FromMapping(mapping, file, header, options);
  }
  return FromMemory(file.name(), ReadKnownSize(file, header, options), header, options);
}

}  // namespace

NpyArray ReadNpy(const std::string& path, const NpyReadOptions& options) {
  const std::shared_ptr<InputFile> file = InputFile::Open(path);
  NpyArray array;
  array.header = ReadHeader(*file, options);
  array.tensor = ReadTensor(*file, array.header, options);
  array.source = file;
  file->CheckUnchanged();
  return array;
}

NpyHeader ReadNpyHeader(const std::string& path, const NpyReadOptions& options) {
  const std::shared_ptr<InputFile> file = InputFile::Open(path);
  NpyHeader header = ReadHeader(*file, options);
  if (file->size()) CheckFileSize(*file, header, options);
  CheckLimits(file->name(), header);
  return header;
}

}  // namespace convgrad
