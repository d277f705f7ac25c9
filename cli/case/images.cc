#include "cli/case/images.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "cli/shards/launchers.h"
#include "cli/text/values.h"

namespace convgrad::cli {
namespace {

[[noreturn]] void ThrowRange(const std::string& flag, const std::string& why) {
  ThrowUsage("images/range", flag, why, "images are counted from 0, and B is not among A:B");
}

}  // namespace

ImageRange ParseImages(const std::string& text, std::optional<int64_t> batch) {
  const std::string flag = "--images " + text.substr(0, 100);
  const size_t colon = text.find(':'), slash = text.find('/');
  if ((colon == std::string::npos) == (slash == std::string::npos)) {
    ThrowUsage("images/syntax", flag, "names no images",
               "give A:B, e.g. 0:64, or I/N, e.g. 3/16 for the third of 16 parts");
  }
  if (slash != std::string::npos) {
    const int64_t count = ParseInteger(flag + ": N", text.substr(slash + 1), 1, kMaxShards);
    const int64_t index = ParseInteger(flag + ": I", text.substr(0, slash), 1, count);
    if (!batch) ThrowRange(flag, "the batch is not known, of which it is a part");
    const ImageRange range = ImagesOfPart(*batch, index - 1, count);
    if (range.size() == 0) ThrowRange(flag, fmt::format("has none of {} images", *batch));
    return range;
  }
  const auto parse = [&](const std::string& number, int64_t otherwise) {
    return number.empty() ? otherwise : ParseInteger(flag, number, 0, kMaxDimension);
  };
  if (!batch && colon + 1 == text.size()) ThrowRange(flag, "the batch is not known, nor its end");
  const ImageRange range = {parse(text.substr(0, colon), 0),
                            parse(text.substr(colon + 1), batch.value_or(0))};
  if (range.begin >= range.end) ThrowRange(flag, "has no image");
  if (batch && range.end > *batch) {
    ThrowRange(flag, fmt::format("goes beyond the batch of {} images", *batch));
  }
  return range;
}

ImageRange ImagesOfPart(int64_t batch, int64_t index, int64_t count) {
  return {batch * index / count, batch * (index + 1) / count};
}

std::string NameOf(const ImageRange& range) {
  return fmt::format("{}:{}", range.begin, range.end);
}

Tensor ImagesOf(const Tensor& tensor, const ImageRange& range) {
  Shape shape = tensor.shape();
  const int64_t bytes = shape[0] == 0 ? 0 : tensor.num_bytes() / shape[0];
  shape[0] = range.size();
  const auto* begin = static_cast<const std::byte*>(tensor.raw()) + bytes * range.begin;
  return Tensor(tensor.dtype(), std::move(shape), std::make_shared<Tensor>(tensor), begin);
}

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
