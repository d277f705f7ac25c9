// A case whose result is a part of a larger one: `run --partial`. The exact sum of a filter
// gradient, not rounded, or the images of a forward pass or an input gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/output_file.h"
#include "cli/case/case.h"
#include "cli/case/operands.h"
#include "cli/console/console.h"
#include "cli/report/report.h"
#include "cli/session/session.h"
#include "files/part_file.h"
#include "order/fixed_point.h"

namespace convgrad::cli {

// One part while it comes about.
class PartRun {
 public:
  // Reads the operands' headers, plans, and opens the file at `path`. `first_image`: of the batch,
  // as --first-image has it, where the operands have a piece of it alone; else null. `console` and
  // `entry` must outlive this. Throws usage "part/precision" for a sum that depends on its cut,
  // "images/range" for no images.
  PartRun(CaseSpec spec, std::string path, const std::string* first_image, const Console& console,
          CaseRecord& entry);

  // Computes it and writes the file, whole or not at all.
  void Run();

  // Says what was written, for people.
  std::string Summary() const;

 private:
  const Problem& problem() const { return operands_.problem(); }
  const Tensor& Operand(int i) const { return i == 0 ? operands_.first() : operands_.second(); }
  Role RoleOf(int i) const { return InfoOf(problem().op).operands[i]; }
  // Of the whole batch.
  ImageRange Range() const;
  void CheckMemory() const;
  void OpenFile();
  void MakeHeader();
  void RunSums();
  void RunImages();
  template <class WriteData>
  void WritePart(const WriteData& write_data);

  const Console& console_;
  CaseRecord& entry_;
  const CaseSpec spec_;
  Operands operands_;
  const std::string path_;
  std::optional<int64_t> first_image_;
  std::optional<OutputFile> file_;
  PartHeader header_;
};

// The case that the command line describes, to the file of --partial.
ExitCode RunPart(Session& session);

// These say what a file's header and the report have of sums, and write their bytes.
PartSums PartSumsOf(const FixedPointSums& sums);
void WriteSums(PartWriter& writer, const FixedPointSums& sums);
PartRecord RecordOf(const std::string& path, const PartHeader& header, const std::string& sha256);

// The largest file that a part of this result can be, and how that comes about; empty where a part
// is just images.
std::string DescribePartSize(const Problem& problem);

}  // namespace convgrad::cli
