// The text of a .npy header: parsed strictly, in one pass, without recursion. Must not know files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/npy.h"

namespace convgrad {

// As NumPy's own limit. The length field is checked against it before anything is read.
inline constexpr int64_t kMaxNpyHeaderBytes = 10000;

// Where a header's text came from, for messages.
struct NpyHeaderSource {
  std::string name;         // of the file
  int major = 1;            // 1, 2 or 3: the format's version
  int64_t text_offset = 0;  // of the text in the file
};

// The header that `text` spells: a dictionary with exactly the keys descr, fortran_order and shape.
// Products of sizes fit 63 bits. data_offset is the end of the text. Throws data errors "npy/...".
NpyHeader ParseNpyHeader(std::string_view text, const NpyHeaderSource& source,
                         const NpyReadOptions& options);

// Throws the data error `code` about the byte at `offset` of the file.
[[noreturn]] void ThrowNpy(const std::string& name, const std::string& code, int64_t offset,
                           const std::string& why, const std::string& fix);

// Text of a file in quotes, bytes other than printable ASCII as \xNN, cut after 40 bytes.
std::string QuoteForMessage(std::string_view text);

}  // namespace convgrad
