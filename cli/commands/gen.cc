// The command `gen`: a seeded tensor as a file.
#include <fmt/format.h>

#include "base/checked.h"
#include "base/resources.h"
#include "cli/case/case_run.h"
#include "cli/case/operands.h"
#include "cli/case/shared_flags.h"
#include "cli/options/commands.h"
#include "cli/text/number_list.h"
#include "cli/text/values.h"
#include "verify/truth/fill.h"

namespace convgrad::cli {
namespace {

const std::string& Needed(const Arguments& arguments, FlagId id) {
  const std::string* text = arguments.Find(id);
  if (text == nullptr) ThrowUsage("flag/missing", Spell(InfoOf(id)), "'gen' needs it");
  return *text;
}

Shape ParseShape(const Arguments& arguments, const FillSpec& fill) {
  if (fill.shape) {
    if (!arguments.Has(FlagId::kShape)) return *fill.shape;
    ThrowUsage("fill/shape", "--shape", "the fill names a shape too", "give one of them");
  }
  Shape shape = ParseIntegers("--shape", Needed(arguments, FlagId::kShape));
  for (const int64_t size : shape) {
    if (size < 0 || size > kMaxDimension) {
      ThrowUsage("fill/shape", "--shape " + ToString(shape),
                 fmt::format("{} is no dimension", size),
                 fmt::format("give numbers from 0 to {}", kMaxDimension));
    }
  }
  if (shape.size() > kMaxRank) {
    ThrowUsage("fill/shape", "--shape " + ToString(shape),
               fmt::format("has more than {} dimensions", kMaxRank));
  }
  const auto elements = CheckedProduct(shape);
  if (!elements || *elements > kMaxElements) {
    ThrowUsage("fill/shape", "--shape " + ToString(shape),
               fmt::format("has more than {} elements", kMaxElements));
  }
  return shape;
}

uint64_t SeedOf(const Arguments& arguments, const FillSpec& fill) {
  if (fill.seed && arguments.Has(FlagId::kSeed)) {
    ThrowUsage("fill/seed", "--seed", "the fill names a seed too", "give one of them");
  }
  return fill.seed.value_or(ParseSeed(arguments.flags()));
}

Role ParseRole(const Arguments& arguments) {
  constexpr Role kRoles[] = {Role::kInput, Role::kFilter, Role::kOutBackprop};
  constexpr std::string_view kNames[] = {"input", "filter", "out_backprop"};
  return kRoles[ParseChoice("--role", arguments.Get(FlagId::kRole, "input"), kNames)];
}

void CheckMemoryFor(const Shape& shape, DType dtype) {
  const int64_t need = *CheckedProduct(shape) * InfoOf(dtype).bytes;
  const int64_t limit = MaxCopiedBytes(0);
  if (need <= limit) return;
  ThrowIo("memory/limit", "memory",
          fmt::format("{} are needed, the limit is {}", FormatExactBytes(need),
                      FormatExactBytes(limit)),
          "make it smaller");
}

}  // namespace

ExitCode Gen(Session& session) {
  const Arguments& arguments = session.arguments;
  const FillSpec fill = ParseFill(Needed(arguments, FlagId::kFill));
  const std::string& path = Needed(arguments, FlagId::kOutput);
  const Shape shape = ParseShape(arguments, fill);
  const DType dtype = ParseDTypeFlag(arguments.flags()).value_or(DType::kFloat32);
  const Role role = ParseRole(arguments);
  const uint64_t seed = SeedOf(arguments, fill);
  const int threads = ParseThreads(arguments.flags());
  const NpyWriteOptions options = ParseWriteOptions(arguments.flags());
  CheckMemoryFor(shape, dtype);

  const TensorTarget target = ParseTensorTarget(path, NameOf(role));
  OutputFile output(target.path.file, {options.no_clobber});
  const Progress progress(session.console, "generating");
  const Parallel parallel(ThreadsOrAll(threads));
  const Tensor tensor = MakeFill(fill, dtype, shape, seed, role, parallel);
  WriteTensor(output, target, tensor, options);
  session.console.Detail(fmt::format("{}: {} {}, fill {}, seed {}, role {}", path,
                                     InfoOf(dtype).name, ToString(shape), fill.ToString(), seed,
                                     NameOf(role)));
  return ExitCode::kOk;
}

}  // namespace convgrad::cli
