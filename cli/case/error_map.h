// The file of --error-map: each element's error, in the result's shape.
#pragma once

#include <cstdint>
#include <optional>

#include "base/output_file.h"
#include "cli/console/console.h"
#include "cli/options/flag_values.h"
#include "files/tensor_file.h"
#include "verify/compare/compare.h"

namespace convgrad::cli {

class ErrorMapFile {
 public:
  // Opens it before anything is computed, if the flags ask for one.
  explicit ErrorMapFile(const FlagValues& flags);

  bool is_wanted() const { return file_.has_value(); }

  // Throws I/O "memory/limit" where a map of `num_elements` does not fit beside `other_bytes`.
  // `limit` 0: 80 % of what is available.
  void CheckMemory(int64_t num_elements, int64_t other_bytes, int64_t limit) const;

  // Whole or not at all; nothing but a warning where single elements were not compared.
  void Write(const CheckResult& check, const Console& console);

 private:
  std::optional<TensorTarget> target_;
  std::optional<OutputFile> file_;
};

}  // namespace convgrad::cli
