// The command `inspect`: what a .npy file holds.
#include <fmt/format.h>

#include "cli/case/case.h"
#include "cli/case/operands.h"
#include "cli/options/commands.h"
#include "cli/session/session.h"
#include "cli/text/values.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

std::string Row(const char* name, const std::string& text) {
  return fmt::format("  {:<12}{}\n", name, text);
}

std::string DescribeValues(const Tensor& tensor) {
  const TensorStatistics statistics = ComputeStatistics(tensor);
  const DType dtype = tensor.dtype();
  std::string text;
  if (statistics.finite > 0) {
    text += Row("range", fmt::format("{} to {}, mean {}", FormatValue(statistics.min, dtype),
                                     FormatValue(statistics.max, dtype), statistics.mean));
  }
  text +=
      Row("non-finite", fmt::format("{} NaN, {} +inf, {} -inf", statistics.nan,
                                    statistics.positive_infinity, statistics.negative_infinity));
  return text + Row("special",
                    fmt::format("{} zero, {} subnormal", statistics.zero, statistics.subnormal));
}

std::string DescribeFile(const std::string& path, const NpyArray& file) {
  const NpyHeader& header = file.header;
  std::string text = EscapeControls(path) + "\n";
  text += Row("type", fmt::format("{} (descr '{}', {}-endian)", InfoOf(header.dtype).name,
                                  header.descr, header.swapped ? "big" : "little"));
  text += Row("shape", fmt::format("{}, {} elements, {} bytes", ToString(header.shape),
                                   file.tensor.num_elements(), file.tensor.num_bytes()));
  text += Row("layout", fmt::format("{} order, format {}.0, data at byte {}",
                                    header.fortran_order ? "Fortran" : "C", header.major,
                                    header.data_offset));
  text += DescribeValues(file.tensor);
  return text + Row("sha256", DataHash(file.tensor));
}

}  // namespace

ExitCode Inspect(Session& session) {
  const Arguments& arguments = session.arguments;
  NpyReadOptions options;
  options.view_as = ParseDTypeFlag(arguments.flags());
  options.allow_trailing = arguments.Has(FlagId::kAllowTrailing);
  options.max_copied_bytes = MaxCopiedBytes(0);
  const Progress progress(session.console, "inspecting");
  for (const std::string& path : arguments.operands()) {
    const NpyArray file = ReadNpy(path, options);
    Describe(session.console, path, file.header);
    const std::string text = DescribeFile(path, file);
    file.CheckUnchanged();
    session.console.Result(text);
  }
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
