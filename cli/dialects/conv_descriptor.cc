#include "cli/dialects/conv_descriptor.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <optional>

namespace convgrad::cli {
namespace {

// One spatial dimension as written: `dilation` counts the zeros between taps.
struct WrittenAxis {
  std::optional<int64_t> in, out, kernel, stride, dilation, pad;

  bool IsGiven() const {
    return in.value_or(0) != 0 || out.value_or(0) != 0 || kernel.value_or(0) != 0 ||
           dilation.value_or(0) != 0 || stride.value_or(1) != 1 || pad.value_or(0) > 0;
  }
};

struct Written {
  std::optional<int64_t> groups, batch, in_c, out_c;
  std::array<WrittenAxis, 3> axes;  // depth, height, width
};

constexpr std::string_view kAxes = "dhw";

// Returns the place of the number behind a name of two letters; null for no name.
std::optional<int64_t>* PlaceOf(Written& written, std::string_view name) {
  if (name == "mb") return &written.batch;
  if (name == "ic") return &written.in_c;
  if (name == "oc") return &written.out_c;
  const size_t at = kAxes.find(name[1]);
  if (at == std::string_view::npos) return nullptr;
  WrittenAxis& axis = written.axes[at];
  switch (name[0]) {
    case 'i': return &axis.in;
    case 'o': return &axis.out;
    case 'k': return &axis.kernel;
    case 's': return &axis.stride;
    case 'p': return &axis.pad;
    case 'd': return &axis.dilation;
    default: return nullptr;
  }
}

[[noreturn]] void RefuseText(std::string_view text) {
  throw Refusal(kMalformed, fmt::format("at '{}'", text.substr(0, 40)));
}

Written Split(std::string_view text) {
  Written written;
  while (!text.empty() && text.front() != 'n') {
    if (text.front() == '_') {
      text.remove_prefix(1);
      continue;
    }
    const bool is_groups = text.front() == 'g';
    const size_t name_size = is_groups ? 1 : 2;
    if (text.size() <= name_size) RefuseText(text);
    std::optional<int64_t>* const place =
        is_groups ? &written.groups : PlaceOf(written, text.substr(0, 2));
    if (place == nullptr) RefuseText(text);
    int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data() + name_size, end, number);
    if (error != std::errc() || number < 0) RefuseText(text);
    *place = number;
    text = text.substr(static_cast<size_t>(next - text.data()));
  }
  return written;
}

LoggedAxis Complete(const WrittenAxis& written) {
  if (written.in.value_or(0) <= 0 || written.kernel.value_or(0) <= 0) {
    throw Refusal(kMalformed, "the size of the input or of the filter is missing");
  }
  LoggedAxis axis;
  axis.in = *written.in;
  axis.kernel = *written.kernel;
  axis.stride = written.stride.value_or(1);
  axis.dilation = written.dilation.value_or(0) + 1;
  axis.out = 1;
  axis.pad_begin = written.pad.value_or(0);
  axis.pad_end = axis.pad_begin;
  axis.CheckRange();
  if (written.out.value_or(0) == 0) {
    axis.out = axis.ExpectedOut();
    if (axis.out < 1) throw Refusal(kContradiction, "the output is empty");
    axis.InferPadEnd();
    return axis;
  }
  axis.out = *written.out;
  axis.CheckRange();
  if (!written.pad) {
    axis.pad_begin = ((axis.out - 1) * axis.stride - axis.in + axis.Extent()) / 2;
    if (axis.pad_begin < 0) throw Refusal(kContradiction, "the output is smaller than it can be");
  }
  axis.InferPadEnd();
  return axis;
}

}  // namespace

bool LooksLikeDescriptor(std::string_view word) {
  const auto has_digit = [word](size_t at) {
    return at < word.size() && std::isdigit(static_cast<unsigned char>(word[at])) != 0;
  };
  if (word.starts_with("g")) return has_digit(1);
  return (word.starts_with("mb") || word.starts_with("ic")) && has_digit(2);
}

LoggedConv ParseDescriptor(std::string_view text) {
  const Written written = Split(text);
  if (written.axes[0].IsGiven()) throw Refusal(kThreeDimensional);
  LoggedConv conv;
  conv.groups = written.groups.value_or(1);
  conv.batch = written.batch.value_or(2);
  conv.in_c = written.in_c.value_or(0);
  conv.out_c = written.out_c.value_or(0);
  if (conv.groups < 1 || conv.in_c < 1 || conv.out_c < 1) {
    throw Refusal(kMalformed, "the channels or groups are missing");
  }
  const bool has_rows = written.axes[1].IsGiven(), has_cols = written.axes[2].IsGiven();
  if (!has_rows && !has_cols) throw Refusal(kMalformed, "no size of an image");
  if (has_rows) conv.rows = Complete(written.axes[1]);
  conv.cols = has_cols ? Complete(written.axes[2]) : conv.rows;
  return conv;
}

std::string WriteDescriptor(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  std::string text = g.groups > 1 ? fmt::format("g{}", g.groups) : "";
  return text + fmt::format("mb{}ic{}ih{}iw{}oc{}oh{}ow{}kh{}kw{}sh{}sw{}dh{}dw{}ph{}pw{}", g.batch,
                            g.in_c, g.in_h, g.in_w, g.out_c, g.out_h, g.out_w, g.kernel_h,
                            g.kernel_w, g.stride_h, g.stride_w, g.dilation_h - 1, g.dilation_w - 1,
                            g.pad_top, g.pad_left);
}

}  // namespace convgrad::cli
