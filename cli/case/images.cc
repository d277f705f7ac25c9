#include "cli/case/images.h"

#include <fmt/format.h>

#include "base/error.h"

namespace convgrad::cli {

bool ParseInvariance(const FlagValues& flags, const OpInfo& op) {
  const FlagId id = flags.Has(FlagId::kActualParts) ? FlagId::kActualParts : FlagId::kInvariance;
  if (!flags.Has(id)) return false;
  flags.Parse(id, [&](const std::string& name) {
    if (op.direction == Direction::kBackpropFilter) {
      ThrowUsage(
          "invariance/sum", name,
          fmt::format("{} is a sum over the images: an image alone has another result", op.name),
          "hold it to the exact value, or check the forward pass and the input gradient");
    }
    if (flags.Has(FlagId::kActual) && !flags.Has(FlagId::kActualParts)) {
      ThrowUsage("invariance/parts", name,
                 "this program can't compute your kernel's result for an image alone",
                 fmt::format("give it with {} F,...", flags.NameOf(FlagId::kActualParts)));
    }
  });
  return true;
}

std::vector<std::string> ParseActualParts(const FlagValues& flags) {
  const std::string* text = flags.Find(FlagId::kActualParts);
  if (text == nullptr) return {};
  std::vector<std::string> parts = FilesIn(InfoOf(FlagId::kActualParts), *text);
  flags.Parse(FlagId::kActualParts, [&](const std::string& name) {
    if (!flags.Has(FlagId::kActual)) {
      ThrowUsage("flag/no-effect", name,
                 fmt::format("has no effect without {}", flags.NameOf(FlagId::kActual)),
                 "give your kernel's result of the whole batch with it");
    }
    for (const std::string& part : parts) {
      if (!part.empty() && !IsStandardStream(part)) continue;
      ThrowUsage("flag/value", fmt::format("{} {}", name, text->substr(0, 100)),
                 part.empty() ? "one of its files has no name" : "'-' is no file of a list",
                 "give files with commas between them, none with a comma in its name");
    }
  });
  return parts;
}

std::vector<StoredTensor> ReadParts(const CaseSpec& spec, const NpyReadOptions& options) {
  std::vector<StoredTensor> files;
  for (const std::string& part : spec.actual_parts) files.push_back(ReadTensor(part, options));
  return files;
}

CheckResult CompareParts(const Problem& problem, const Tensor& whole,
                         std::span<const std::string> names, std::span<const StoredTensor> files,
                         const Parallel& parallel) {
  std::vector<Part> parts;
  for (size_t i = 0; i < files.size(); ++i) parts.push_back({names[i], files[i].tensor});
  CheckResult result = ComparePartsOfBatch(problem, whole, parts, parallel);
  for (const StoredTensor& file : files) file.CheckUnchanged();
  return result;
}

}  // namespace convgrad::cli
