// The command `plan`: what a case would take, without running it.
#include <fmt/format.h>

#include "base/resources.h"
#include "cli/case/case.h"
#include "cli/case/case_run.h"
#include "cli/case/filter_border.h"
#include "cli/case/operands.h"
#include "cli/commands/plan_shards.h"
#include "cli/options/commands.h"
#include "cli/parts/part_run.h"
#include "cli/shards/launchers.h"
#include "cli/text/row.h"
#include "cli/text/values.h"
#include "order/canonical_order.h"
#include "problem/explain.h"

namespace convgrad::cli {
namespace {

std::string DescribeShapes(const Problem& problem, FilterFormat filter_format) {
  const ConvGeometry& g = problem.geometry;
  const OpInfo& op = InfoOf(problem.op);
  std::string text = fmt::format("{} {}\n", op.name, InfoOf(problem.dtype).name);
  for (const Role role : op.operands) {
    const Shape shape = problem.ShapeOf(role);
    const bool is_filter = role == Role::kFilter;
    text += Row(NameOf(role),
                ToString(is_filter ? ShapeIn(filter_format, op.depthwise, shape) : shape));
  }
  const Shape result = FilterBorder(problem, filter_format).ResultShape();
  text += Row("result", fmt::format("{} {}", op.result, ToString(result)));
  text += Row("layout", fmt::format("{}, filters {}, {}", NameOf(problem.data_format),
                                    NameOf(filter_format), Plural(g.groups, "group")));
  text += Row("strides", fmt::format("{},{}", g.stride_h, g.stride_w));
  text += Row("dilations", fmt::format("{},{}", g.dilation_h, g.dilation_w));
  text += Row("pads", fmt::format("top {}, bottom {}, left {}, right {} ({})", g.pad_top,
                                  g.pad_bottom, g.pad_left, g.pad_right, NameOf(problem.padding)));
  for (const std::string& line : ExplainSizes(problem)) text += Row("output size", line);
  return text;
}

std::string DescribeWork(const Problem& problem) {
  const int64_t bytes = problem.OperandBytes() + problem.ResultBytes();
  return Row("terms", fmt::format("at most {} for an element", problem.MaxTerms())) +
         Row("FLOPs", fmt::format("{}", problem.Flops())) +
         Row("bytes", fmt::format("{} in, {} out; {:.3g} FLOPs a byte", problem.OperandBytes(),
                                  problem.ResultBytes(),
                                  bytes == 0 ? 0.0
                                             : static_cast<double>(problem.Flops()) /
                                                   static_cast<double>(bytes)));
}

std::string DescribeRun(const RunInfo& run) {
  return Row("memory", fmt::format("{}, {} of them scratch", FormatExactBytes(run.memory_bytes),
                                   run.scratch_bytes)) +
         Row("algorithm", fmt::format("{}: {}", run.algorithm, run.why)) +
         Row("target", fmt::format("{}, {}", NameOf(run.isa), Plural(run.num_threads, "thread"))) +
         Row("tiles", run.tiles.empty() ? "none: no terms" : run.tiles) +
         Row("precision", NameOf(run.precision)) + Row("algo", kAlgo);
}

// Says how large a part of a filter gradient can be.
std::string DescribePart(const Problem& problem, const Execution& execution) {
  if (execution.precision != Precision::kExact) return "";
  const std::string size = DescribePartSize(problem);
  return size.empty() ? "" : Row("part", size);
}

// The images that each of so many parts has; none where there are fewer images.
std::string DescribeCut(const Arguments& arguments, const Operands& operands) {
  const std::string* text = arguments.Find(FlagId::kShards);
  if (text == nullptr) return "";
  if (arguments.Has(FlagId::kImages)) {
    ThrowUsage("flag/conflict", "--shards and --images", "shards are parts of the whole batch",
               "give one of them");
  }
  const int64_t count = ParseInteger("--shards", *text, 1, kMaxShards);
  std::string cut = Row("cut", fmt::format("{} images", operands.batch()));
  for (int64_t i = 0; i < count; ++i) {
    const ImageRange images = ImagesOfPart(operands.batch(), i, count);
    cut += Row("", images.size() == 0
                       ? fmt::format("--images {}/{}  none", i + 1, count)
                       : fmt::format("--images {}/{}  {}", i + 1, count, NameOf(images)));
  }
  return cut;
}

// Says where `run` would not start at all on this machine as it is now.
std::string DescribeMemoryLimit(const Operands& operands) {
  try {
    operands.CheckMemory();
    return "";
  } catch (const Error& error) {
    return Row("", "would be refused: " + error.message());
  }
}

}  // namespace

ExitCode Plan(Session& session) {
  if (NamesManifest(session.arguments)) return PlanShards(session);
  for (const FlagId id :
       {FlagId::kMatch, FlagId::kTag, FlagId::kSplitImages, FlagId::kAllowEmpty}) {
    if (!session.arguments.Has(id)) continue;
    ThrowUsage("flag/no-effect", Spell(InfoOf(id)), "has no effect on an operation's plan",
               "leave it out, or name a manifest");
  }
  CaseRecord& entry = BeginCase(session);
  const CaseSpec spec = ParseCase(RequestOf(session.arguments));
  session.report.execution = spec.execution;
  entry.filter_format = spec.conv.filter_format;
  entry.use_cudnn_on_gpu = spec.use_cudnn_on_gpu;
  const Operands operands(spec, session.console);
  entry.problem = operands.problem();
  if (spec.name.empty()) entry.name = operands.problem().ToLine();
  entry.inputs = operands.Records();
  entry.run = PlanRun(operands.problem(), spec.execution);
  entry.status = CaseStatus::kSkipped;
  entry.exit_code = ExitCode::kOk;
  session.console.Result(DescribeShapes(*entry.problem, entry.filter_format) +
                         DescribeWork(*entry.problem) + DescribeRun(*entry.run) +
                         DescribePart(*entry.problem, spec.execution) +
                         DescribeCut(session.arguments, operands) + DescribeMemoryLimit(operands));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
