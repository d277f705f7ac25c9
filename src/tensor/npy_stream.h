// The steps of reading a .npy, wherever its bytes come from: a file, or a member of an archive.
// Must not know which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/input_file.h"
#include "tensor/npy.h"
#include "tensor/read_bytes.h"

namespace convgrad {

// Bytes that come one after the other.
struct NpySource {
  std::string name;  // for messages
  ReadNext read;
};

// Magic, version and header: what stands before the elements, and nothing of these.
NpyHeader ReadNpyHeader(const NpySource& source, const NpyReadOptions& options);

// Bytes of the elements.
int64_t NpyDataBytes(const NpyHeader& header);

// Throws unless `size` bytes in all are those that the header claims.
void CheckNpySize(const std::string& name, const NpyHeader& header, int64_t size,
                  const NpyReadOptions& options);

// Throws for sizes that the bytes bear out but nothing here can compute with.
void CheckNpyLimits(const std::string& name, const NpyHeader& header);

// Throws "memory/limit" for a copy of more than the options allow.
void CheckCopiedBytes(const std::string& name, int64_t bytes, const NpyReadOptions& options);

// The elements as they are stored, of a source whose size was checked, and that stands behind the
// header.
AlignedBytes ReadNpyData(const NpySource& source, const NpyHeader& header,
                         const NpyReadOptions& options);

// These as a tensor.
Tensor NpyFromMemory(const std::string& name, AlignedBytes data, const NpyHeader& header,
                     const NpyReadOptions& options);

// The file was opened, and nothing was read of it but by Peek().
NpyArray ReadNpy(const std::shared_ptr<InputFile>& file, const NpyReadOptions& options);
NpyHeader ReadNpyHeader(InputFile& file, const NpyReadOptions& options);

}  // namespace convgrad
