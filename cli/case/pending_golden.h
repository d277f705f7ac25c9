// A result that was left for review where its golden failed, taken over as the golden. Must not
// know of cases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "cli/record/golden_record.h"
#include "files/tensor_file.h"

namespace convgrad::cli {

// How far a tensor is from the exact values, each rounded once.
struct ExactError {
  int64_t elements = 0;   // that differ from them
  double bound_used = 0;  // the worst element's error over its bound; may be infinite
};

// Both errors are there where they were measured: the golden's, and that of the result that would
// replace it.
struct PendingErrors {
  std::optional<ExactError> before, now;
};

// Says in the record beside the pending file `path` which golden it would replace, what that is
// now, and how good both are.
void MarkPending(const std::string& path, const std::string& golden, const PendingErrors& errors);

// Returns the pending files that `accept` names, and those in directories that it names and beneath
// them, in order. Throws I/O errors, and usage for a file that is none.
std::vector<std::string> FindPending(const std::vector<std::string>& operands);

// Keeps no file open, so that there may be many.
class PendingGolden {
 public:
  // Reads the record of the pending file `path`. Throws I/O errors, and data "golden/malformed".
  explicit PendingGolden(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& golden() const { return golden_; }

  // Throws kWrong "golden/changed" if the golden is no longer what it was when the result was left,
  // and data "golden/malformed" if file and record don't belong together.
  void Check() const;

  // How the golden that is there differs from what would replace it, and how far both are from the
  // exact values, in one line or two.
  std::string Difference(const Parallel& parallel) const;

  // Writes the golden, then its record, and removes what was left for review. Without a `reason`
  // that of the golden so far stays. Throws as Check() does.
  void Accept(const std::optional<std::string>& reason) const;

 private:
  StoredTensor Read() const;
  void CheckGolden() const;

  std::string path_, golden_;
  std::string was_;  // the golden, when the result was left
  PendingErrors errors_;
  GoldenRecord record_;
};

}  // namespace convgrad::cli
