// Command lines of MIOpenDriver, as people type them and as MIOpen logs them:
//   MIOpenDriver convfp16 -n 128 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -F 1
// Pads are the same on both sides.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "cli/dialects/dialect.h"
#include "cli/dialects/words.h"

namespace convgrad::cli {
namespace {

struct Flag {
  char letter;
  std::string_view name;
  std::string_view value;  // by default
};
constexpr Flag kFlags[] = {
    {'n', "batchsize", "100"},
    {'c', "in_channels", "3"},
    {'H', "in_h", "32"},
    {'W', "in_w", "32"},
    {'k', "out_channels", "32"},
    {'y', "fil_h", "3"},
    {'x', "fil_w", "3"},
    {'p', "pad_h", "0"},
    {'q', "pad_w", "0"},
    {'u', "conv_stride_h", "1"},
    {'v', "conv_stride_w", "1"},
    {'l', "dilation_h", "1"},
    {'j', "dilation_w", "1"},
    {'g', "group_count", "1"},
    {'F', "forw", "0"},
    {'m', "mode", "conv"},
    {'z', "pad_mode", "conv"},
    {'_', "spatial_dim", "2"},
    {'I', "in_layout", "NCHW"},
    {'f', "fil_layout", "NCHW"},
    {'b', "bias", "0"},
    {'Y', "trans_output_pad_h", "0"},
    {'X', "trans_output_pad_w", "0"},
};

struct Driver {
  std::string_view name;
  DType dtype;
};
constexpr Driver kDrivers[] = {
    {"conv", DType::kFloat32}, {"convfp16", DType::kFloat16}, {"convbfp16", DType::kBFloat16}};

struct DriverWay {
  int64_t bit;
  Direction direction;
};
constexpr DriverWay kDriverWays[] = {
    {1, Direction::kForward}, {2, Direction::kBackpropInput}, {4, Direction::kBackpropFilter}};

class Values {
 public:
  explicit Values(const std::vector<std::string_view>& words) {
    for (const Flag& flag : kFlags) values_[flag.letter] = flag.value;
    for (size_t at = 0; at < words.size(); ++at) {
      std::string_view word = words[at];
      if (!word.starts_with('-') || word.size() < 2) continue;
      const Flag* flag = Find(word);
      if (flag == nullptr) continue;
      if (at + 1 == words.size()) throw Refusal(kMalformed, fmt::format("{} has no value", word));
      values_[flag->letter] = words[++at];
    }
  }

  std::string_view Text(char letter) const { return values_.at(letter); }
  int64_t Number(char letter) const {
    const auto number = ReadInteger(Text(letter));
    if (!number || *number < 0) {
      throw Refusal(kMalformed, fmt::format("-{} {}", letter, Text(letter).substr(0, 40)));
    }
    return *number;
  }

 private:
  static const Flag* Find(std::string_view word) {
    const auto is_named = [word](const Flag& flag) {
      if (word.starts_with("--")) return word.substr(2) == flag.name;
      return word.size() == 2 && word[1] == flag.letter;
    };
    const auto flag = std::find_if(std::begin(kFlags), std::end(kFlags), is_named);
    return flag == std::end(kFlags) ? nullptr : &*flag;
  }

  std::map<char, std::string_view> values_;
};

LoggedAxis AxisOf(const Values& values, const char (&letters)[6], bool is_transposed,
                  char more_letter) {
  LoggedAxis axis;
  axis.in = values.Number(letters[0]);
  axis.kernel = values.Number(letters[1]);
  axis.pad_begin = axis.pad_end = values.Number(letters[2]);
  axis.stride = values.Number(letters[3]);
  axis.dilation = values.Number(letters[4]);
  axis.out = 1;
  axis.CheckRange();
  axis.out = is_transposed ? (axis.in - 1) * axis.stride - 2 * axis.pad_begin + axis.Extent() +
                                 values.Number(more_letter)
                           : axis.ExpectedOut();
  return axis;
}

LoggedConv ConvOf(const Values& values, DType dtype) {
  if (values.Number('_') == 3) throw Refusal(kThreeDimensional);
  const bool is_transposed = values.Text('m') == "trans";
  if (!is_transposed && values.Text('m') != "conv") {
    throw Refusal(fmt::format("mode {}", values.Text('m').substr(0, 20)),
                  "conv and trans are known");
  }
  if (values.Text('z') != "conv" && values.Text('z') != "default") {
    throw Refusal("pads by a rule of MIOpen's (-z)", "give them in numbers");
  }
  LoggedConv conv;
  conv.dtype = dtype;
  conv.batch = values.Number('n');
  conv.in_c = values.Number('c');
  conv.out_c = values.Number('k');
  conv.groups = values.Number('g');
  conv.rows = AxisOf(values, {'H', 'y', 'p', 'u', 'l', '\0'}, is_transposed, 'Y');
  conv.cols = AxisOf(values, {'W', 'x', 'q', 'v', 'j', '\0'}, is_transposed, 'X');
  conv.has_bias = values.Number('b') != 0;
  if (values.Text('I') == "NHWC") conv.data_format = DataFormat::kNHWC;
  if (values.Text('f') == "NHWC") conv.filter_format = FilterFormat::kOHWI;
  return conv;
}

class MiopenReader final : public DialectReader {
 public:
  Reading Read(std::string_view record) override {
    const std::vector<std::string_view> words = SplitWords(record);
    const auto is_program = [](std::string_view word) {
      return word.substr(word.find_last_of('/') + 1) == "MIOpenDriver";
    };
    const auto program = std::find_if(words.begin(), words.end(), is_program);
    if (program == words.end() || program + 1 == words.end()) return {};
    const std::string_view name = *(program + 1);
    if (!name.starts_with("conv")) return {};
    Reading reading;
    try {
      AddConvs(name, {program + 2, words.end()}, reading);
    } catch (const Refusal& refusal) {
      reading.refusals.push_back(refusal);
    }
    return reading;
  }

 private:
  static void AddConvs(std::string_view name, const std::vector<std::string_view>& words,
                       Reading& reading) {
    const auto driver = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                     [&](const Driver& one) { return one.name == name; });
    // "convint8": what is behind the name is a type.
    const DType dtype =
        driver != std::end(kDrivers) ? driver->dtype : ParseLoggedType(name.substr(4));
    const Values values(words);
    const LoggedConv conv = ConvOf(values, dtype);
    const int64_t ways = values.Number('F') == 0 ? 7 : values.Number('F');
    if (ways > 7) throw Refusal(kMalformed, fmt::format("-F {}", ways));
    for (const DriverWay& way : kDriverWays) {
      if ((ways & way.bit) == 0) continue;
      LoggedConv one = conv;
      one.direction = way.direction;
      if (values.Text('m') == "trans") one.Transpose();
      reading.convs.push_back(one);
    }
  }
};

}  // namespace

std::unique_ptr<DialectReader> MakeMiopenReader() {
  return std::make_unique<MiopenReader>();
}

std::string WriteMiopenLine(const ExportCase& one) {
  const Problem& problem = one.problem;
  const ConvGeometry& g = problem.geometry;
  const auto driver = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                   [&](const Driver& row) { return row.dtype == problem.dtype; });
  if (driver == std::end(kDrivers)) one.Refuse("MIOpenDriver has no float64");
  if (g.pad_top != g.pad_bottom || g.pad_left != g.pad_right) {
    one.Refuse("MIOpenDriver has the same pads on both sides alone");
  }
  std::string layout;
  if (problem.data_format == DataFormat::kNHWC) {
    layout = " --in_layout NHWC --fil_layout NHWC --out_layout NHWC";
  }
  const DriverWay* way = kDriverWays;
  while (way->direction != InfoOf(problem.op).direction) ++way;
  return fmt::format(
      "MIOpenDriver {} -n {} -c {} -H {} -W {} -k {} -y {} -x {} -p {} -q {} -u {} -v {} -l {} "
      "-j {} -m conv -g {} -F {} -t 1{}\n",
      driver->name, g.batch, g.in_c, g.in_h, g.in_w, g.out_c, g.kernel_h, g.kernel_w, g.pad_top,
      g.pad_left, g.stride_h, g.stride_w, g.dilation_h, g.dilation_w, g.groups, way->bit, layout);
}

}  // namespace convgrad::cli
