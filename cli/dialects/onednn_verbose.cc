// Lines of ONEDNN_VERBOSE, of oneDNN 1 to 3:
//   dnnl_verbose,exec,cpu,convolution,jit:avx2,forward_training,src_f32::blocked:abcd:f0
//   wei_f32...,
//     ,alg:convolution_direct,mb1_ic3oc16_ih7oh7kh5sh1dh0ph2_iw7ow7kw5sw1dw0pw2,0.05
//   onednn_verbose,v1,1733.2,primitive,exec,cpu,convolution,...,src:f32:a:blocked:acdb::f0 wei:...
// The descriptor has the pads at the beginning alone; those at the end follow from the sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "cli/dialects/conv_descriptor.h"
#include "cli/dialects/dialect.h"
#include "cli/dialects/words.h"

namespace convgrad::cli {
namespace {

// The fields behind the name of the primitive.
enum Field : size_t { kImplementation, kPropagation, kFormats, kAttributes };

struct Tensor {
  std::string_view type, tag;
};

// "src_f32::blocked:acdb:f0" or "src:f32:a:blocked:acdb::f0".
std::optional<Tensor> ParseTensor(std::string_view text, std::string_view name) {
  if (!text.starts_with(name) || text.size() <= name.size()) return std::nullopt;
  const char separator = text[name.size()];
  if (separator != '_' && separator != ':') return std::nullopt;
  const std::vector<std::string_view> parts = SplitAt(text.substr(name.size() + 1), ':');
  const auto kind = std::find(parts.begin(), parts.end(), "blocked");
  Tensor tensor = {parts.front(), ""};
  if (kind != parts.end() && kind + 1 != parts.end()) tensor.tag = *(kind + 1);
  return tensor;
}

std::optional<Tensor> FindTensor(std::string_view formats, std::string_view name) {
  for (const std::string_view word : SplitAt(formats, ' ')) {
    if (const auto tensor = ParseTensor(word, name)) return tensor;
  }
  return std::nullopt;
}

// The tag of the one that a library was not free to choose, where one was: blocked orders are a
// library's own.
DataFormat FormatOf(const Tensor& source, const Tensor& result) {
  for (const std::string_view tag : {source.tag, result.tag}) {
    if (tag == "acdb" || tag == "acb") return DataFormat::kNHWC;
  }
  return DataFormat::kNCHW;
}

void ReadFormats(std::string_view formats, LoggedConv& conv) {
  const auto source = FindTensor(formats, "src"), filter = FindTensor(formats, "wei"),
             result = FindTensor(formats, "dst"), bias = FindTensor(formats, "bia");
  if (!source || !filter || !result) throw Refusal(kMalformed, "the types are missing");
  conv.dtype = ParseLoggedType(source->type);
  if (ParseLoggedType(filter->type) != conv.dtype || ParseLoggedType(result->type) != conv.dtype) {
    throw Refusal(kMixedTypes,
                  fmt::format("src {}, wei {}, dst {}", source->type, filter->type, result->type));
  }
  conv.data_format = FormatOf(*source, *result);
  conv.has_bias = bias && bias->type != "undef" && !bias->type.empty();
}

struct Propagation {
  std::string_view name;
  std::vector<Direction> directions;
};

std::vector<Direction> DirectionsOf(std::string_view name) {
  const Propagation table[] = {
      {"forward_training", {Direction::kForward}},
      {"forward_inference", {Direction::kForward}},
      {"backward_data", {Direction::kBackpropInput}},
      {"backward_weights", {Direction::kBackpropFilter}},
      {"backward", {Direction::kBackpropInput, Direction::kBackpropFilter}},
  };
  for (const Propagation& row : table) {
    if (row.name == name) return row.directions;
  }
  throw Refusal(kMalformed, fmt::format("propagation '{}'", name.substr(0, 40)));
}

bool IsVersion(std::string_view field) {
  return field.size() > 1 && field[0] == 'v' &&
         std::all_of(field.begin() + 1, field.end(),
                     [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

Reading ReadConvolution(const std::vector<std::string_view>& fields) {
  if (fields.size() <= kAttributes) throw Refusal(kMalformed, "the line ends early");
  const auto descriptor = std::find_if(fields.begin() + kAttributes, fields.end(),
                                       [](auto field) { return LooksLikeDescriptor(field); });
  if (descriptor == fields.end()) throw Refusal(kMalformed, "the descriptor is missing");
  if (descriptor + 1 == fields.end()) throw Refusal(kMalformed, "the time is missing");
  LoggedConv conv = ParseDescriptor(*descriptor);
  ReadFormats(fields[kFormats], conv);
  const auto has_post_ops = [](std::string_view field) {
    return field.find("post-ops:") != std::string_view::npos &&
           field.find("post-ops:''") == std::string_view::npos;
  };
  conv.has_post_ops = std::any_of(fields.begin() + kAttributes, descriptor, has_post_ops);
  Reading reading;
  for (const Direction direction : DirectionsOf(fields[kPropagation])) {
    conv.direction = direction;
    reading.convs.push_back(conv);
  }
  return reading;
}

class OneDnnReader final : public DialectReader {
 public:
  Reading Read(std::string_view record) override {
    for (const std::string_view marker : {"onednn_verbose,", "dnnl_verbose,"}) {
      const size_t at = record.find(marker);
      if (at != std::string_view::npos) return ReadLine(record.substr(at + marker.size()));
    }
    return {};
  }

 private:
  static Reading ReadLine(std::string_view line) {
    const std::vector<std::string_view> fields = SplitAt(line, ',');
    const auto primitive = std::find(fields.begin(), fields.end(), "convolution");
    const bool is_run = std::find(fields.begin(), primitive, "exec") != primitive;
    if (primitive == fields.end() || !is_run) return {};
    Reading reading;
    try {
      if (IsVersion(fields.front()) && fields.front() != "v1") {
        throw Refusal(fmt::format("version {} of the verbose format", fields.front()),
                      "version v1 and lines without a version are known");
      }
      return ReadConvolution({primitive + 1, fields.end()});
    } catch (const Refusal& refusal) {
      reading.refusals.push_back(refusal);
    }
    return reading;
  }
};

}  // namespace

std::unique_ptr<DialectReader> MakeOneDnnReader() {
  return std::make_unique<OneDnnReader>();
}

}  // namespace convgrad::cli
