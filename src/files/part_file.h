// Files of parts of a result, .cgp: what some images of a batch add to a filter gradient, exactly,
// or some images of a forward pass or an input gradient. A header in JSON says what it is a part
// of; the last bytes are a hash of all others. docs/reference/part-files.md describes them. Must
// not know what a convolution is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "base/output_file.h"
#include "tensor/tensor_hash.h"

namespace convgrad {

inline constexpr const char* kPartSchema = "convgrad-part/1";

// Names of operands with a hash each.
using OperandHashes = std::vector<std::pair<std::string, std::string>>;

// Images [begin, end) of the batch, and the data hashes of those operands that are theirs.
struct PartImages {
  int64_t begin = 0, end = 0;
  OperandHashes operands;
  bool operator==(const PartImages&) const = default;
};

// Exact sums: `elements` integers in two's complement of `words` words, the first worth
// 2^(64 * first_word); after them a byte for each element if some have infinite or NaN terms.
struct PartSums {
  int64_t elements = 0;
  int first_word = 0, words = 1;
  bool special = false;
  bool operator==(const PartSums&) const = default;
};

struct PartHeader {
  std::string problem;             // its line, with '*' where the number of images stands
  std::string precision;           // "exact", or of results what they were computed at
  std::optional<int64_t> batch;    // images of the whole, where it is known
  OperandHashes operands;          // what all parts of the whole have in common: samples, filters
  std::vector<PartImages> images;  // in order
  std::optional<PartSums> sums;    // none: results
  int64_t image_bytes = 0;         // of results, those of one image

  int64_t num_images() const;
  bool operator==(const PartHeader&) const = default;
  // Bytes of sums or results; none if there are none as large.
  std::optional<int64_t> DataBytes() const;
};

// Bytes of a file with this header.
int64_t PartFileBytes(const PartHeader& header);

// Writes a part: the header, then bytes as they come, which must be DataBytes() in all.
class PartWriter {
 public:
  PartWriter(OutputFile& file, const PartHeader& header);

  void Write(const void* from, int64_t bytes);
  // Commits the file. Returns its hash, as the report has it.
  std::string Finish();

 private:
  OutputFile& file_;
  DataHasher hasher_;
  int64_t left_;
};

// Reads a part. Nothing is taken for right before Finish() has returned.
class PartReader {
 public:
  // Reads the header, and holds the file's size against it. Throws data "part/...", I/O errors.
  explicit PartReader(const std::string& path);

  const std::string& name() const { return file_->name(); }
  const PartHeader& header() const { return header_; }
  int64_t file_bytes() const { return *file_->size(); }

  // The next bytes of the data; all of them, no more.
  void Read(void* into, int64_t bytes);
  // Throws data "part/hash" unless the file's bytes are those that were written, I/O
  // "io/file-changed". Returns the hash.
  std::string Finish();

 private:
  std::string ReadExactly(int64_t bytes);

  std::shared_ptr<InputFile> file_;
  DataHasher hasher_;
  PartHeader header_;
};

}  // namespace convgrad
