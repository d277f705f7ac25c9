// The record beside a golden that this program wrote, F.golden.json: what the golden holds and
// where it came from. No clock in it, so that recording again changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problem/geometry.h"
#include "problem/precision.h"
#include "tensor/tensor.h"

namespace convgrad::cli {

struct RecordedInput {
  std::string role;
  std::string dtype;
  std::string sha256;
  bool operator==(const RecordedInput&) const = default;
};

struct GoldenRecord {
  std::string sha256;
  std::string dtype;
  Shape shape;
  std::string algo;
  std::string precision;
  std::vector<RecordedInput> inputs = {};
  std::string reason = {};       // why it was recorded, as the user said
  bool has_file = false;         // the data were kept too, not the hash alone
  std::string text_sha256 = {};  // of the record itself, once it was read

  // True if this program, run as it is now at `now`, must give the same bits.
  bool IsReproducible(Precision now) const;
};

// True if `text` is written as data hashes are.
bool IsDataHash(const std::string& text);

// "F.golden.json", F being the file, whichever tensor of it is the golden.
std::string RecordPathOf(const std::string& golden_path);

// None where there is no such file. Throws I/O errors, and data "golden/malformed" for a broken
// one.
std::optional<GoldenRecord> ReadRecord(const std::string& path);
// Its text alone; of a file that is too long for one, the beginning.
std::optional<std::string> ReadRecordText(const std::string& path);

// The record that this program, as it is now, writes of a golden with this hash and shape;
// `has_file`: beside its data.
std::string RenderRecord(const std::string& sha256, bool has_file, const Shape& shape,
                         const Problem& problem, Precision precision,
                         const std::vector<RecordedInput>& inputs, const std::string& reason);

}  // namespace convgrad::cli
