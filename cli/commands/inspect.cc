// The command `inspect`: what a file holds, of several tensors a list.
#include <fmt/format.h>

#include "base/parallel.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/options/commands.h"
#include "cli/session/session.h"
#include "cli/text/row.h"
#include "cli/text/values.h"
#include "tensor/statistics.h"
#include "tensor/tensor_hash.h"

namespace convgrad::cli {
namespace {

std::string DescribeValues(const TensorStatistics& statistics, DType dtype) {
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

std::string DescribeTensor(const std::string& name, const StoredTensor& file,
                           const TensorStatistics& statistics, const std::string& hash) {
  const TensorHeader& header = file.header;
  std::string text = EscapeControls(name) + "\n";
  text += Row("type", fmt::format("{} ({}, {}-endian)", InfoOf(header.dtype).name,
                                  header.stored_type, header.swapped ? "big" : "little"));
  text += Row("shape", fmt::format("{}, {} elements, {} bytes", ToString(header.shape),
                                   file.tensor.num_elements(), file.tensor.num_bytes()));
  text += Row("layout", fmt::format("{} order, {}", header.fortran_order ? "Fortran" : "C",
                                    header.stored_in));
  text += DescribeValues(statistics, header.dtype);
  return text + Row("sha256", hash);
}

// One tensor that can't be read hides no other.
std::string DescribeMember(const TensorContainer& container, size_t at,
                           const NpyReadOptions& options) {
  try {
    const TensorHeader header = container.Header(at, options);
    return fmt::format("{} {} ({}, {})", InfoOf(header.dtype).name, ToString(header.shape),
                       header.stored_type, header.stored_in);
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData) throw;
    return "can't be read: " + error.code();
  }
}

std::string ListTensors(const std::string& path, const TensorContainer& container,
                        const NpyReadOptions& options) {
  const std::vector<std::string>& names = container.names();
  std::string text = fmt::format("{}\n", EscapeControls(path));
  text += Row("tensors", fmt::format("{}", names.size()));
  for (size_t at = 0; at < names.size(); ++at) {
    text += fmt::format("  {}\n    {}\n", EscapeControls(ToString({path, names[at]})),
                        EscapeControls(DescribeMember(container, at, options)));
  }
  return text;
}

// Adds the tensor to the entry; returns its description.
std::string InspectTensor(const std::string& name, const StoredTensor& file, CaseRecord& entry) {
  const TensorStatistics statistics = ComputeStatistics(file.tensor);
  const std::string hash = DataHash(file.tensor);
  InputRecord record = {"file", name, hash, InfoOf(file.header.dtype).name,
                        file.header.fortran_order};
  record.shape = file.header.shape;
  record.statistics = statistics;
  entry.inputs = {record};
  return DescribeTensor(name, file, statistics, hash);
}

ExitCode InspectPath(Session& session, const std::string& text, const NpyReadOptions& options) {
  const TensorPath path = ParseTensorPath(text);
  const TensorFile opened = OpenTensorFile(path.file, options);
  CaseRecord& entry = session.report.cases.back();
  std::string described;
  if (opened.container && !path.name && opened.container->names().size() != 1) {
    described = ListTensors(text, *opened.container, options);
  } else {
    const StoredTensor file = ReadTensor(opened, path, options);
    Describe(session.console, text, file.header);
    const bool is_named = !opened.container || path.name;
    described = InspectTensor(
        is_named ? text : ToString({path.file, opened.container->names().front()}), file, entry);
  }
  opened.file->CheckUnchanged();
  entry.status = CaseStatus::kComputed;
  entry.exit_code = ExitCode::kOk;
  session.console.Result(described);
  return ExitCode::kOk;
}

}  // namespace

ExitCode Inspect(Session& session) {
  const Arguments& arguments = session.arguments;
  NpyReadOptions options;
  options.view_as = ParseDTypeFlag(arguments.flags());
  options.allow_trailing = arguments.Has(FlagId::kAllowTrailing);
  options.max_copied_bytes = MaxCopiedBytes(0);
  const Progress progress(session.console, "inspecting");
  ExitCode code = ExitCode::kOk;
  for (const std::string& path : arguments.operands()) {
    CaseRecord entry;
    entry.name = path;
    entry.repro = ShellLine({arguments.program(), "inspect", path});
    session.report.cases.push_back(entry);
    code = Worse(code, AttemptCase(session, [&] { return InspectPath(session, path, options); }));
    if (StopRequested()) break;
  }
  return code;
}

}  // namespace convgrad::cli
