#include "files/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "files/file_bytes.h"
#include "files/npz.h"
#include "files/safetensors.h"
#include "files/safetensors_header.h"
#include "tensor/foreign_format.h"
#include "tensor/npy_stream.h"
#include "tensor/write_elements.h"

namespace convgrad {
namespace {

// Throws for a pointer, a page or the like under the name of an archive.
void CheckNotForeign(InputFile& file, TensorFormat named) {
  if (named == TensorFormat::kNpy) return;  // whose reader says it
  const std::string foreign = ForeignFormatOf(file.Peek(kForeignBytes));
  if (foreign.empty()) return;
  if (named == TensorFormat::kNpz) {
    ThrowData("npz/malformed", file.name(), "there is no zip archive", foreign);
  }
  ThrowData("safetensors/header", file.name(), "there is no header of tensors", foreign);
}

// Follows the first bytes, else the name.
TensorFormat FormatOf(InputFile& file) {
  constexpr int64_t kLookedAt = kSafetensorsLengthBytes + 1;
  const std::string_view start = file.Peek(kLookedAt);
  if (start.starts_with("\x93NUMPY")) return TensorFormat::kNpy;
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    return TensorFormat::kNpz;
  }
  // A header of less than 4 GiB.
  const bool has_header = std::ssize(start) == kLookedAt && start.back() == '{' &&
                          start.substr(4, 4) == std::string_view("\0\0\0\0", 4);
  if (has_header) return TensorFormat::kSafetensors;
  const TensorFormat named = FormatOfName(file.name());
  CheckNotForeign(file, named);
  return named;
}

TensorFile Open(const std::string& path, const NpyReadOptions& options) {
  TensorFile opened;
  opened.file = InputFile::Open(path);
  const TensorFormat format = FormatOf(*opened.file);
  if (format == TensorFormat::kNpy) return opened;
  const auto bytes = FileBytes::Of(opened.file, options.max_copied_bytes);
  try {
    opened.container =
        format == TensorFormat::kNpz ? OpenNpz(bytes) : OpenSafetensors(bytes, options);
  } catch (const Error&) {
    opened.file->CheckUnchanged();
    throw;
  }
  return opened;
}

// It can be read once, and several tensors of it may be asked for.
TensorFile OpenStandardInput(const NpyReadOptions& options) {
  static std::mutex mutex;
  static auto* const kept = new TensorFile();
  const std::lock_guard lock(mutex);
  if (kept->container) return *kept;
  const TensorFile opened = Open("-", options);
  if (opened.container) *kept = opened;
  return opened;
}

// The first few names.
std::string ListTensors(const TensorFile& opened) {
  constexpr size_t kShown = 20;
  const std::vector<std::string>& names = opened.container->names();
  std::string list;
  for (size_t at = 0; at < std::min(names.size(), kShown); ++at) {
    list += (at == 0 ? "" : ", ") + names[at];
  }
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return list.empty() ? "it holds none" : "it holds " + list;
}

size_t Find(const TensorFile& opened, const TensorPath& path) {
  const std::vector<std::string>& names = opened.container->names();
  if (path.name) {
    const auto at = std::find(names.begin(), names.end(), *path.name);
    if (at != names.end()) return static_cast<size_t>(at - names.begin());
    ThrowData("tensor/unknown-name", ToString(path), "there is no such tensor",
              ListTensors(opened));
  }
  if (names.size() == 1) return 0;
  ThrowData("tensor/name-needed", path.file, fmt::format("it holds {} tensors", names.size()),
            names.empty() ? ""
                          : fmt::format("name one, as in {}; {}", ToString({path.file, names[0]}),
                                        ListTensors(opened)));
}

void CheckNamesNothing(const TensorPath& path) {
  if (!path.name) return;
  ThrowData("tensor/unknown-name", ToString(path), "a .npy file has one tensor, without a name",
            "give the file alone");
}

// The container's bytes may be mapped: a file that was cut meanwhile has zeros there.
template <class Read>
auto ReadFrom(const TensorFile& opened, const Read& read) {
  try {
    auto result = read();
    opened.file->CheckUnchanged();
    return result;
  } catch (const Error&) {
    opened.file->CheckUnchanged();
    throw;
  }
}

std::string PlaceOfData(const NpyHeader& header) {
  return fmt::format("data at byte {}", header.data_offset);
}

}  // namespace

TensorFile OpenTensorFile(const std::string& file, const NpyReadOptions& options) {
  return file == "-" ? OpenStandardInput(options) : Open(file, options);
}

StoredTensor ReadTensor(const TensorFile& opened, const TensorPath& path,
                        const NpyReadOptions& options) {
  if (!opened.container) {
    CheckNamesNothing(path);
    NpyArray array = ReadNpy(opened.file, options);
    return {HeaderOfNpy(array.header, PlaceOfData(array.header)), std::move(array.tensor),
            opened.file};
  }
  const size_t at = Find(opened, path);
  return ReadFrom(opened, [&] {
    return StoredTensor{opened.container->Header(at, options), opened.container->Read(at, options),
                        opened.file};
  });
}

StoredTensor StoredInMemory(Tensor tensor) {
  StoredTensor stored;
  stored.header.dtype = tensor.dtype();
  stored.header.shape = tensor.shape();
  stored.tensor = std::move(tensor);
  return stored;
}

StoredTensor ReadTensor(const TensorPath& path, const NpyReadOptions& options) {
  return ReadTensor(OpenTensorFile(path.file, options), path, options);
}

StoredTensor ReadTensor(const std::string& path, const NpyReadOptions& options) {
  return ReadTensor(ParseTensorPath(path), options);
}

TensorHeader ReadTensorHeader(const std::string& text, const NpyReadOptions& options) {
  const TensorPath path = ParseTensorPath(text);
  const TensorFile opened = OpenTensorFile(path.file, options);
  if (!opened.container) {
    CheckNamesNothing(path);
    const NpyHeader header = ReadNpyHeader(*opened.file, options);
    return HeaderOfNpy(header, PlaceOfData(header));
  }
  const size_t at = Find(opened, path);
  return ReadFrom(opened, [&] { return opened.container->Header(at, options); });
}

TensorTarget ParseTensorTarget(const std::string& text, const std::string& default_name) {
  const TensorPath path = ParseTensorPath(text);
  TensorTarget target = {path, FormatOfName(path.file), default_name};
  if (target.format == TensorFormat::kNpz) {
    ThrowUsage("output/format", text, "an .npz is only read",
               "write a .npy or a .safetensors file");
  }
  if (path.name && target.format == TensorFormat::kNpy) {
    ThrowUsage("output/format", text, "standard output gets a .npy, which has no names",
               "give '-' alone, or name a .safetensors file");
  }
  if (target.format == TensorFormat::kSafetensors) CheckSafetensorsName(target.name());
  return target;
}

std::string WriteTensor(OutputFile& file, const TensorTarget& target, const Tensor& tensor,
                        const NpyWriteOptions& options) {
  if (target.format != TensorFormat::kSafetensors) return WriteNpy(file, tensor, options);
  return WriteElements(
      file,
      SafetensorsHeaderBytes(target.name(), tensor.dtype(), tensor.shape(), options.bfloat16_as),
      tensor, options);
}

std::string WriteTensor(const TensorTarget& target, const Tensor& tensor,
                        const NpyWriteOptions& options) {
  OutputFile file(target.path.file, {.no_clobber = options.no_clobber});
  return WriteTensor(file, target, tensor, options);
}

}  // namespace convgrad
