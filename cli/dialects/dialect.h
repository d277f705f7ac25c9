// The table of dialects: in what other programs say their convolutions, and how each is read and
// written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/dialects/export_case.h"
#include "cli/dialects/logged_conv.h"

namespace convgrad::cli {

// A record (a line, or a JSON object of several) of a log, as it turned out to be. Neither
// convolutions nor refusals: other output, which the dialect does not speak of.
struct Reading {
  std::vector<LoggedConv> convs;
  std::vector<Refusal> refusals;
  int64_t count = 1;  // how often the log says that each came
};

// Reads the records of one log, one after the other: some dialects say things that hold for the
// lines that follow.
class DialectReader {
 public:
  virtual ~DialectReader() = default;
  // `number` is not known to it: whatever is wrong with a record is among its refusals.
  virtual Reading Read(std::string_view record) = 0;
};

struct Dialect {
  const char* name;
  const char* summary;
  // A record is a JSON object, which may have several lines.
  bool is_json;
  // Null for one that is only written.
  std::unique_ptr<DialectReader> (*make_reader)();
  // The line or the script for a case; null for one that is only read. Throws usage errors.
  std::string (*write)(const ExportCase& one);
  // True if any number of the lines that it writes can follow each other.
  bool writes_lines;
};

std::span<const Dialect> AllDialects();

// Throws usage "dialect/unknown" that suggests the nearest.
const Dialect& FindDialect(const std::string& name);

std::unique_ptr<DialectReader> MakeOneDnnReader();
std::unique_ptr<DialectReader> MakeBenchdnnReader();
std::unique_ptr<DialectReader> MakePyTorchReader();
std::unique_ptr<DialectReader> MakeMiopenReader();
std::unique_ptr<DialectReader> MakeCudnnReader();
std::unique_ptr<DialectReader> MakeHipdnnReader();

}  // namespace convgrad::cli
