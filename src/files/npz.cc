// libzip finds the members and unpacks them; what they claim is checked before memory is taken for
// it.
#include "files/npz.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/npy_header.h"
#include "tensor/npy_stream.h"

namespace convgrad {
namespace {

// A deflated bit pair stands for 258 bytes at most, so a byte for 1032: beyond it a claim is false.
constexpr int64_t kMostInflation = 1032;

struct Method {
  int number;
  const char* name;
};

// These are the format's; those that numpy writes are read, the others are named.
constexpr Method kMethods[] = {
    {ZIP_CM_STORE, "stored"},
    {ZIP_CM_DEFLATE, "deflated"},
    {1, "shrunk"},
    {2, "reduced"},
    {3, "reduced"},
    {4, "reduced"},
    {5, "reduced"},
    {6, "imploded"},
    {9, "Deflate64"},
    {10, "imploded (DCL)"},
    {12, "bzip2"},
    {14, "LZMA"},
    {16, "CMPSC"},
    {18, "TERSE"},
    {19, "LZ77"},
    {20, "Zstandard"},
    {93, "Zstandard"},
    {94, "MP3"},
    {95, "XZ"},
    {96, "JPEG"},
    {97, "WavPack"},
    {98, "PPMd"},
    {99, "AES"},
};

std::string NameOf(int method) {
  for (const Method& row : kMethods) {
    if (row.number == method) return row.name;
  }
  return "unknown";
}

struct Member {
  std::string name;  // as the archive has it
  int64_t size = 0;
  int64_t stored_bytes = 0;
  int method = ZIP_CM_STORE;
  bool is_encrypted = false;
};

[[noreturn]] void ThrowMalformed(const std::string& what, const std::string& why) {
  ThrowData("npz/malformed", what, "npz/malformed: " + why, kCopyAgain);
}

// An error of libzip, whose text ends with itself.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t* get() { return &error_; }
  std::string text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_;
};

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;

struct CloseMember {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using OpenMember = std::unique_ptr<zip_file_t, CloseMember>;

Archive OpenArchive(const FileBytes& bytes) {
  if (bytes.size() == 0) ThrowMalformed(bytes.name(), "the file is empty");
  ZipError error;
  zip_source_t* source = zip_source_buffer_create(
      bytes.data(), static_cast<zip_uint64_t>(bytes.size()), /*freep=*/0, error.get());
  if (source == nullptr) ThrowMalformed(bytes.name(), error.text());
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, error.get()));
  if (archive) return archive;
  zip_source_free(source);
  const bool is_other = zip_error_code_zip(error.get()) == ZIP_ER_NOZIP;
  ThrowMalformed(bytes.name(), is_other ? "there is no zip archive, or it is cut off"
                                        : "the archive is damaged: " + error.text());
}

Member ReadMember(zip_t* archive, zip_uint64_t at, const FileBytes& bytes) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                   ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  zip_stat_t status;
  const bool is_read = zip_stat_index(archive, at, ZIP_FL_ENC_RAW | ZIP_FL_UNCHANGED, &status) == 0;
  if (!is_read || (status.valid & kNeeded) != kNeeded) {
    ThrowMalformed(bytes.name(), fmt::format("nothing is known of its member {}", at + 1));
  }
  constexpr zip_uint64_t kMost = INT64_MAX;
  return {status.name, static_cast<int64_t>(std::min(status.size, kMost)),
          static_cast<int64_t>(std::min(status.comp_size, kMost)), status.comp_method,
          status.encryption_method != ZIP_EM_NONE};
}

std::string TensorNameOf(const std::string& member) {
  constexpr std::string_view kEnding = ".npy";
  return member.ends_with(kEnding) ? member.substr(0, member.size() - kEnding.size()) : member;
}

// numpy would take the last, other readers the first.
void CheckNamesDiffer(const std::string& label, std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  ThrowData("npz/duplicate-name", label, fmt::format("it has two members '{}'", *twice),
            "keep one of them");
}

class NpzArchive final : public TensorContainer {
 public:
  explicit NpzArchive(std::shared_ptr<const FileBytes> bytes)
      : TensorContainer(bytes->name()), bytes_(std::move(bytes)), archive_(OpenArchive(*bytes_)) {
    std::vector<std::string> names;
    const auto count =
        static_cast<zip_uint64_t>(zip_get_num_entries(archive_.get(), ZIP_FL_UNCHANGED));
    for (zip_uint64_t at = 0; at < count; ++at) {
      members_.push_back(ReadMember(archive_.get(), at, *bytes_));
      names.push_back(TensorNameOf(members_.back().name));
    }
    CheckNamesDiffer(label(), names);
    SetNames(std::move(names));
  }

  TensorHeader Header(size_t at, const NpyReadOptions& options) const override {
    const OpenMember file = Open(at);
    const NpyHeader header = ReadHeader(at, file.get(), options);
    TensorHeader described = HeaderOfNpy(header, NameOf(members_[at].method));
    described.is_copied = true;
    return described;
  }

  Tensor Read(size_t at, const NpyReadOptions& options) const override {
    const OpenMember file = Open(at);
    const NpyHeader header = ReadHeader(at, file.get(), options);
    AlignedBytes data = ReadNpyData(SourceOf(at, file.get()), header, options);
    CheckEnd(at, file.get(), header.data_offset + NpyDataBytes(header));
    return NpyFromMemory(LabelOf(at), std::move(data), header, options);
  }

 private:
  void CheckMember(size_t at) const;
  OpenMember Open(size_t at) const;
  NpySource SourceOf(size_t at, zip_file_t* file) const;
  NpyHeader ReadHeader(size_t at, zip_file_t* file, const NpyReadOptions& options) const;
  void CheckEnd(size_t at, zip_file_t* file, int64_t done) const;

  std::shared_ptr<const FileBytes> bytes_;
  Archive archive_;  // not for several threads at once
  std::vector<Member> members_;
};

// Holds what the archive says of a member against the bytes that are there.
void NpzArchive::CheckMember(size_t at) const {
  const Member& member = members_[at];
  if (member.is_encrypted) {
    ThrowData("npz/encrypted", LabelOf(at), "it is encrypted",
              "write the archive without a password");
  }
  const bool is_deflated = member.method == ZIP_CM_DEFLATE;
  if (!is_deflated && member.method != ZIP_CM_STORE) {
    ThrowData(
        "npz/compression", LabelOf(at),
        fmt::format("its compression is {} (method {})", NameOf(member.method), member.method),
        "write it with numpy.savez or numpy.savez_compressed");
  }
  if (member.stored_bytes > bytes_->size()) {
    ThrowMalformed(LabelOf(at), fmt::format("it claims {} bytes of a file of {}",
                                            member.stored_bytes, bytes_->size()));
  }
  const int64_t most = is_deflated ? kMostInflation * member.stored_bytes : member.stored_bytes;
  if (member.size > most || (!is_deflated && member.size < most)) {
    ThrowMalformed(LabelOf(at), fmt::format("it claims {} bytes, {} in {}", member.size,
                                            NameOf(member.method), member.stored_bytes));
  }
}

OpenMember NpzArchive::Open(size_t at) const {
  CheckMember(at);
  OpenMember file(zip_fopen_index(archive_.get(), at, ZIP_FL_UNCHANGED));
  if (!file) ThrowMalformed(LabelOf(at), zip_strerror(archive_.get()));
  return file;
}

NpySource NpzArchive::SourceOf(size_t at, zip_file_t* file) const {
  return {LabelOf(at), [this, at, file](void* into, int64_t bytes) {
            int64_t done = 0;
            while (done < bytes) {
              const zip_int64_t got = zip_fread(file, static_cast<char*>(into) + done,
                                                static_cast<zip_uint64_t>(bytes - done));
              if (got < 0) ThrowMalformed(LabelOf(at), zip_file_strerror(file));
              if (got == 0) break;
              done += got;
            }
            return done;
          }};
}

NpyHeader NpzArchive::ReadHeader(size_t at, zip_file_t* file, const NpyReadOptions& options) const {
  NpyHeader header = ReadNpyHeader(SourceOf(at, file), options);
  CheckNpySize(LabelOf(at), header, members_[at].size, options);
  CheckNpyLimits(LabelOf(at), header);
  return header;
}

// Reads on to the end, where libzip compares the checksum. `done` bytes were read before.
void NpzArchive::CheckEnd(size_t at, zip_file_t* file, int64_t done) const {
  const NpySource source = SourceOf(at, file);
  char rest[4096];
  while (const int64_t got = source.read(rest, sizeof(rest))) {
    done += got;
    RetryUnlessStopped();
  }
  if (done == members_[at].size) return;
  ThrowMalformed(LabelOf(at),
                 fmt::format("it claims {} bytes and has {}", members_[at].size, done));
}

}  // namespace

TensorHeader HeaderOfNpy(const NpyHeader& header, const std::string& stored_in) {
  TensorHeader described;
  described.dtype = header.dtype;
  described.shape = header.shape;
  described.swapped = header.swapped;
  described.fortran_order = header.fortran_order;
  described.is_copied = header.swapped || header.fortran_order;
  described.stored_type = fmt::format("descr '{}'", header.descr);
  described.stored_in = fmt::format("format {}.0, {}", header.major, stored_in);
  described.warnings = header.warnings;
  return described;
}

std::shared_ptr<const TensorContainer> OpenNpz(std::shared_ptr<const FileBytes> bytes) {
  return std::make_shared<const NpzArchive>(std::move(bytes));
}

}  // namespace convgrad
