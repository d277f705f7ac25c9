#include "cli/case/error_map.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/resources.h"

namespace convgrad::cli {

ErrorMapFile::ErrorMapFile(const FlagValues& flags) {
  if (const std::string* path = flags.Find(FlagId::kErrorMap)) {
    target_ = ParseTensorTarget(*path, "error");
    file_.emplace(target_->path.file, OutputFileOptions{flags.Has(FlagId::kNoClobber)});
  }
}

void ErrorMapFile::CheckMemory(int64_t num_elements, int64_t other_bytes, int64_t limit) const {
  if (!file_) return;
  const int64_t map_bytes = num_elements * InfoOf(DType::kFloat32).bytes;
  if (limit == 0) limit = AvailableMemory() / 5 * 4;
  if (map_bytes + other_bytes <= limit) return;
  ThrowIo(
      "memory/limit", "memory",
      fmt::format("the error map needs {} beside {}, the limit is {}", FormatExactBytes(map_bytes),
                  FormatExactBytes(other_bytes), FormatExactBytes(limit)),
      "leave out --error-map, or raise --max-memory");
}

void ErrorMapFile::Write(const CheckResult& check, const Console& console) {
  if (!file_) return;
  if (check.errors) {
    WriteTensor(*file_, *target_, *check.errors);
  } else {
    console.Warn(
        fmt::format("{} was not written: no single elements were compared", file_->name()));
  }
}

}  // namespace convgrad::cli
