// Words for `benchdnn --conv`: command lines, the lines of its files of options, and files that
// hold nothing but problem descriptors. Options hold for the descriptors that follow them, on later
// lines too, until --reset.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <vector>

#include "cli/dialects/conv_descriptor.h"
#include "cli/dialects/dialect.h"
#include "cli/dialects/words.h"

namespace convgrad::cli {
namespace {

constexpr size_t kMostCombinations = 1024;

struct Way {
  std::string_view name;
  Direction direction;
  bool has_bias;
};
constexpr Way kWays[] = {
    {"FWD_B", Direction::kForward, true},         {"FWD_D", Direction::kForward, false},
    {"FWD_I", Direction::kForward, false},        {"BWD_D", Direction::kBackpropInput, false},
    {"BWD_W", Direction::kBackpropFilter, false}, {"BWD_WB", Direction::kBackpropFilter, true},
};

// Lists, of which benchdnn runs all combinations.
struct Options {
  std::vector<std::string> ways = {"FWD_B"}, types = {"f32"}, tags = {"any"}, batches = {"0"};
  std::vector<std::string> result_tags = {"any"};
  bool has_post_ops = false;
};

std::string Upper(std::string_view text) {
  std::string upper;
  for (const unsigned char letter : text) upper += static_cast<char>(std::toupper(letter));
  return upper;
}

const Way& FindWay(std::string_view name) {
  const auto way = std::find_if(std::begin(kWays), std::end(kWays),
                                [&](const Way& one) { return one.name == Upper(name); });
  if (way == std::end(kWays)) {
    throw Refusal(fmt::format("--dir={} of no known direction", name.substr(0, 20)));
  }
  return *way;
}

// "bf16", "f32:f32:f32" of --dt, or "bf16bf16bf16" of --cfg: one type for all three.
DType ParseTypes(std::string_view text) {
  constexpr std::string_view kTypes[] = {"bf16", "f16", "f32", "f64"};
  std::string_view rest = text;
  std::string_view first;
  while (!rest.empty()) {
    if (rest.front() == ':') rest.remove_prefix(1);
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](std::string_view one) { return rest.starts_with(one); });
    if (type == std::end(kTypes)) return ParseLoggedType(text);
    if (first.empty()) first = *type;
    if (first != *type) throw Refusal(kMixedTypes, std::string(text.substr(0, 40)));
    rest.remove_prefix(type->size());
  }
  return ParseLoggedType(first);
}

bool IsChannelsLast(std::string_view tag) {
  constexpr std::string_view kTags[] = {"axb", "acdb", "nhwc", "acb", "nwc"};
  return std::find(std::begin(kTags), std::end(kTags), tag) != std::end(kTags);
}

class BenchdnnReader final : public DialectReader {
 public:
  Reading Read(std::string_view record) override {
    const std::vector<std::string_view> words = SplitWords(record);
    if (words.empty() || words.front().starts_with('#') || !IsOfConv(words)) return {};
    Reading reading;
    for (const std::string_view word : words) {
      try {
        if (word.starts_with("--")) {
          TakeOption(word);
        } else if (LooksLikeDescriptor(word)) {
          AddProblem(word, reading);
        }
      } catch (const Refusal& refusal) {
        reading.refusals.push_back(refusal);
      }
    }
    return reading;
  }

 private:
  // A line of other output, or for another of benchdnn's drivers.
  static bool IsOfConv(const std::vector<std::string_view>& words) {
    const std::string_view first = words.front();
    const std::string_view program = first.substr(first.find_last_of('/') + 1);
    if (program != "benchdnn") return first.starts_with("--") || LooksLikeDescriptor(first);
    return std::find(words.begin(), words.end(), "--conv") != words.end();
  }

  void TakeOption(std::string_view word) {
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(2, equals - 2);
    const std::string_view value = word.substr(std::min(equals + 1, word.size()));
    if (name == "reset") options_ = {};
    if (name == "batch") {
      throw Refusal("--batch names another file of problems", "import that file itself");
    }
    if (name == "dir") Set(options_.ways, value);
    if (name == "dt" || name == "cfg") Set(options_.types, value);
    if (name == "stag") Set(options_.tags, value);
    if (name == "dtag") Set(options_.result_tags, value);
    if (name == "mb") Set(options_.batches, value);
    if (name == "attr-post-ops") options_.has_post_ops = !value.empty();
  }

  static void Set(std::vector<std::string>& list, std::string_view value) {
    list.clear();
    for (const std::string_view one : SplitAt(value, ',')) list.emplace_back(one);
  }

  void AddProblem(std::string_view word, Reading& reading) const {
    const LoggedConv written = ParseDescriptor(word);
    const size_t combinations = options_.ways.size() * options_.types.size() *
                                options_.tags.size() * options_.batches.size();
    if (combinations > kMostCombinations) {
      throw Refusal(fmt::format("more than {} combinations of options", kMostCombinations));
    }
    for (const std::string& way : options_.ways) {
      for (const std::string& types : options_.types) {
        for (const std::string& tag : options_.tags) {
          for (const std::string& batch : options_.batches) {
            try {
              reading.convs.push_back(Combine(written, way, types, tag, batch));
            } catch (const Refusal& refusal) {
              reading.refusals.push_back(refusal);
            }
          }
        }
      }
    }
  }

  LoggedConv Combine(LoggedConv conv, const std::string& way_name, const std::string& types,
                     const std::string& tag, const std::string& batch) const {
    const Way& way = FindWay(way_name);
    conv.direction = way.direction;
    conv.has_bias = way.has_bias;
    conv.has_post_ops = options_.has_post_ops;
    conv.dtype = ParseTypes(types);
    const bool is_free = tag == "any" || tag.empty();
    if (IsChannelsLast(is_free ? options_.result_tags.front() : tag)) {
      conv.data_format = DataFormat::kNHWC;
    }
    const auto images = ReadInteger(batch);
    if (!images || *images < 0) throw Refusal(kMalformed, fmt::format("--mb={}", batch));
    if (*images > 0) conv.batch = *images;
    return conv;
  }

  Options options_;
};

}  // namespace

std::unique_ptr<DialectReader> MakeBenchdnnReader() {
  return std::make_unique<BenchdnnReader>();
}

std::string WriteBenchdnnLine(const ExportCase& one) {
  const Problem& problem = one.problem;
  const Way* way = kWays;
  while (way->has_bias || way->direction != InfoOf(problem.op).direction) ++way;
  constexpr std::string_view kTypes[] = {"f16", "bf16", "f32", "f64"};
  const std::string_view type = kTypes[static_cast<size_t>(problem.dtype)];
  const char* tag = problem.data_format == DataFormat::kNHWC ? "axb" : "abx";
  return fmt::format("benchdnn --mode=C --conv --dir={} --dt={} --stag={} --dtag={} {}\n",
                     way->name, type, tag, tag, WriteDescriptor(problem));
}

}  // namespace convgrad::cli
