#include "problem/geometry.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "problem/attributes.h"
#include "problem/explain.h"
#include "problem/misfit.h"
#include "problem/shapes.h"
#include "problem/window.h"

namespace convgrad {

// Turns a ConvSpec into a Problem step by step, in the order in which TensorFlow checks:
// attributes, sizes vectors, ranks, batch, channels, windows.
class ProblemMaker {
 public:
  // An error may search for what the user may have meant. The search itself must not.
  enum class Advice { kSearch, kNone };

  ProblemMaker(const ConvSpec& spec, Advice advice)
      : spec_(spec), info_(InfoOf(spec.op)), advice_(advice), attributes_(CheckAttributes(spec)) {}

  Problem Make() {
    CheckOperands();
    CheckRanks();
    TakeSizes();
    CheckBatch();
    SetChannels();
    SetWindows();
    const Problem problem = {spec_.op, spec_.dtype, spec_.data_format, spec_.padding, geometry_};
    CheckProblem(problem);
    return problem;
  }

 private:
  // The filter in our order; the last is output channels, or the multiplier of a depthwise filter.
  struct FilterSizes {
    int64_t h, w, in_c, last;
  };

  void CheckOperands() const;
  void CheckRanks() const;
  void TakeSizes();
  void CheckBatch() const;
  void SetChannels();
  void SetDepthwiseChannels();
  void SetGroupedChannels();
  void CheckGroups() const;
  void CheckOutChannels() const;
  void SetWindows();
  void CheckWindows(const WantedWindows& wanted) const;
  std::string WhyNotOutBackprop(const WantedWindows& wanted) const;
  void CheckProblem(const Problem& problem) const;

  bool IsGiven(Role role) const;
  const Shape& GivenFilter() const;
  Shape OurFilter() const;
  Shape InputShape() const;
  std::string InputInWords() const;
  std::string FilterInWords() const;
  std::string OutBackpropInWords() const;
  // Throws a data error about shapes that do not fit together, with what may have been meant.
  [[noreturn]] void ThrowMisfit(const char* code, const std::string& what, const std::string& why,
                                std::string fix = "") const;
  [[noreturn]] void ThrowWindow(const WantedWindows& wanted, const char* code,
                                const std::string& what, const std::string& why) const;

  const ConvSpec& spec_;
  const OpInfo& info_;
  const Advice advice_;
  const Attributes attributes_;
  ImageSizes input_ = {};
  FilterSizes filter_ = {};
  std::optional<ImageSizes> out_backprop_;
  ConvGeometry geometry_ = {};
};

namespace {

bool CanBeMade(const ConvSpec& spec) {
  try {
    ProblemMaker(spec, ProblemMaker::Advice::kNone).Make();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void ProblemMaker::ThrowMisfit(const char* code, const std::string& what, const std::string& why,
                               std::string fix) const {
  if (fix.empty() && advice_ == Advice::kSearch) fix = SuggestOtherMeaning(spec_, CanBeMade);
  ThrowData(code, what, why, fix);
}

bool ProblemMaker::IsGiven(Role role) const {
  switch (role) {
    case Role::kInput: return spec_.input.has_value();
    case Role::kFilter: return spec_.filter.has_value();
    case Role::kOutBackprop: return spec_.out_backprop.has_value();
  }
  ThrowInternal("unknown role");
}

void ProblemMaker::CheckOperands() const {
  const auto check = [this](const char* name, bool is_needed, bool is_given) {
    if (is_needed && !is_given) {
      ThrowUsage("operand/missing", info_.name, fmt::format("needs {}", name));
    }
    if (!is_needed && is_given) {
      ThrowUsage("operand/unexpected", info_.name, fmt::format("takes no {}", name));
    }
  };
  for (const Role role : {Role::kInput, Role::kFilter, Role::kOutBackprop}) {
    const bool is_needed = role == info_.operands[0] || role == info_.operands[1];
    check(NameOf(role), is_needed, IsGiven(role));
  }
  check("input_sizes", info_.direction == Direction::kBackpropInput, spec_.input_sizes.has_value());
  check("filter_sizes", info_.direction == Direction::kBackpropFilter,
        spec_.filter_sizes.has_value());
  if (!InfoOf(spec_.dtype).is_float) {
    ThrowData("dtype/unsupported", info_.name,
              fmt::format("does not compute in {}", InfoOf(spec_.dtype).name),
              "convert the operands to float16, bfloat16, float32 or float64");
  }
}

void ProblemMaker::CheckRanks() const {
  if (spec_.input_sizes) {
    CheckSizes("input_sizes", *spec_.input_sizes,
               info_.depthwise ? ShortForm::kRefused : ShortForm::kAllowed);
  }
  if (spec_.filter_sizes) CheckSizes("filter_sizes", *spec_.filter_sizes, ShortForm::kRefused);
  if (spec_.input) CheckShape("input", *spec_.input);
  if (spec_.filter) CheckShape("filter", *spec_.filter);
  if (spec_.out_backprop) CheckShape("out_backprop", *spec_.out_backprop);
}

// The 2-value form takes the batch from out_backprop and the channels from the filter.
Shape ProblemMaker::InputShape() const {
  if (spec_.input) return *spec_.input;
  const std::vector<int64_t>& sizes = spec_.input_sizes->values;
  if (sizes.size() == 4) return sizes;
  const int64_t batch = ImageSizesOf(*spec_.out_backprop, spec_.data_format).batch;
  const int64_t in_c = (*spec_.filter)[AxesOf(spec_.filter_format).in];
  return ToShape({batch, sizes[0], sizes[1], in_c}, spec_.data_format);
}

const Shape& ProblemMaker::GivenFilter() const {
  return spec_.filter ? *spec_.filter : spec_.filter_sizes->values;
}

Shape ProblemMaker::OurFilter() const {
  const Shape& given = GivenFilter();
  const FilterFormat format = spec_.filter_format;
  if (const auto ours = ShapeFrom(format, info_.depthwise, input_.c, given)) return *ours;
  const FilterAxes axes = AxesOf(format);
  ThrowMisfit("shape/filter-format", FilterInWords(),
              fmt::format("is no depthwise filter for the {} channels of {}: in {} it has a "
                          "multiple of {} output channels with 1 input channel each, not {} with "
                          "{}",
                          input_.c, InputInWords(), NameOf(format), input_.c, given[axes.out],
                          given[axes.in]));
}

void ProblemMaker::TakeSizes() {
  const Shape input = InputShape();
  if (spec_.input_sizes) {  // the short form may name a tensor that is too large
    CheckSizes("input_sizes", {input, spec_.input_sizes->from_file}, ShortForm::kRefused);
  }
  input_ = ImageSizesOf(input, spec_.data_format);
  const Shape filter = OurFilter();
  filter_ = {filter[0], filter[1], filter[2], filter[3]};
  if (spec_.out_backprop) out_backprop_ = ImageSizesOf(*spec_.out_backprop, spec_.data_format);
  ConvGeometry& g = geometry_;
  g.batch = input_.batch;
  g.in_h = input_.h;
  g.in_w = input_.w;
  g.in_c = input_.c;
  g.kernel_h = filter_.h;
  g.kernel_w = filter_.w;
}

std::string ProblemMaker::InputInWords() const {
  return fmt::format("{} {}", spec_.input ? "input" : "input_sizes", ToString(InputShape()));
}

std::string ProblemMaker::FilterInWords() const {
  const bool is_ours = spec_.filter_format == FilterFormat::kHWIO;
  return fmt::format("{} {}{}", spec_.filter ? "filter" : "filter_sizes", ToString(GivenFilter()),
                     is_ours ? "" : fmt::format(" ({})", NameOf(spec_.filter_format)));
}

std::string ProblemMaker::OutBackpropInWords() const {
  return fmt::format("out_backprop {}", ToString(*spec_.out_backprop));
}

void ProblemMaker::CheckBatch() const {
  if (!out_backprop_ || out_backprop_->batch == input_.batch) return;
  ThrowMisfit("shape/batch", OutBackpropInWords(),
              fmt::format("has batch {} where {} has batch {}", out_backprop_->batch,
                          InputInWords(), input_.batch));
}

void ProblemMaker::SetChannels() {
  if (info_.depthwise) {
    SetDepthwiseChannels();
  } else {
    SetGroupedChannels();
  }
  CheckOutChannels();
}

void ProblemMaker::SetDepthwiseChannels() {
  if (filter_.in_c != input_.c) {
    ThrowMisfit("shape/channels", FilterInWords(),
                fmt::format("is for {} input channels where {} has {}", filter_.in_c,
                            InputInWords(), input_.c));
  }
  ConvGeometry& g = geometry_;
  g.groups = input_.c;
  g.group_in_c = 1;
  g.group_out_c = filter_.last;
  CheckGroups();
  g.out_c = input_.c * filter_.last;
}

void ProblemMaker::SetGroupedChannels() {
  if (filter_.in_c == 0) {
    ThrowMisfit("shape/channels", FilterInWords(), "must have at least 1 input channel, has 0");
  }
  if (input_.c % filter_.in_c != 0) {
    ThrowMisfit("shape/channels", FilterInWords(),
                fmt::format("its {} input channels do not divide the {} of {}", filter_.in_c,
                            input_.c, InputInWords()));
  }
  ConvGeometry& g = geometry_;
  g.groups = input_.c / filter_.in_c;
  if (g.groups > 0 && filter_.last % g.groups != 0) {
    ThrowMisfit("shape/groups", FilterInWords(),
                fmt::format("its {} output channels are no multiple of the {} groups that follow "
                            "from {} input channels, {} of them in the filter",
                            filter_.last, g.groups, input_.c, filter_.in_c));
  }
  CheckGroups();
  g.group_in_c = filter_.in_c;
  g.group_out_c = g.groups > 0 ? filter_.last / g.groups : 0;
  g.out_c = filter_.last;
}

// Any number of groups divides 0 channels.
void ProblemMaker::CheckGroups() const {
  if (!spec_.groups || input_.c == 0 || *spec_.groups == geometry_.groups) return;
  ThrowMisfit(
      "shape/groups", fmt::format("groups {}", *spec_.groups),
      fmt::format("{} with {} makes {}", FilterInWords(), InputInWords(), geometry_.groups));
}

void ProblemMaker::CheckOutChannels() const {
  const int64_t out_c = geometry_.out_c;
  if (!out_backprop_ || out_backprop_->c == out_c) return;
  const std::string reason = info_.depthwise
                                 ? fmt::format("{} input channels with multiplier {} give {}",
                                               input_.c, filter_.last, out_c)
                                 : fmt::format("{} has {} output channels", FilterInWords(), out_c);
  ThrowMisfit("shape/out-backprop", OutBackpropInWords(),
              fmt::format("has {} channels where {}", out_backprop_->c, reason));
}

void ProblemMaker::SetWindows() {
  const Attributes& a = attributes_;
  const Window rows = {input_.h,      filter_.h, a.stride_h,  a.dilation_h,
                       spec_.padding, a.pad_top, a.pad_bottom};
  const Window cols = {input_.w,      filter_.w,  a.stride_w, a.dilation_w,
                       spec_.padding, a.pad_left, a.pad_right};
  const WindowFit row_fit = FitWindow(rows), col_fit = FitWindow(cols);
  ConvGeometry& g = geometry_;
  g.stride_h = a.stride_h;
  g.stride_w = a.stride_w;
  g.dilation_h = a.dilation_h;
  g.dilation_w = a.dilation_w;
  g.out_h = row_fit.out;
  g.pad_top = row_fit.pad_before;
  g.pad_bottom = row_fit.pad_after;
  g.out_w = col_fit.out;
  g.pad_left = col_fit.pad_before;
  g.pad_right = col_fit.pad_after;
  CheckWindows({rows, cols, out_backprop_ ? std::optional(out_backprop_->h) : std::nullopt,
                out_backprop_ ? std::optional(out_backprop_->w) : std::nullopt});
}

void ProblemMaker::ThrowWindow(const WantedWindows& wanted, const char* code,
                               const std::string& what, const std::string& why) const {
  std::string fix;
  if (advice_ == Advice::kSearch) {
    // A filter larger than the image is another tensor or layout rather than another padding.
    const bool is_larger = filter_.h > input_.h || filter_.w > input_.w;
    if (is_larger) fix = SuggestOtherMeaning(spec_, CanBeMade);
    if (fix.empty()) fix = SuggestOtherAttributes(spec_, wanted, CanBeMade);
  }
  ThrowMisfit(code, what, why, std::move(fix));
}

void ProblemMaker::CheckWindows(const WantedWindows& wanted) const {
  const ConvGeometry& g = geometry_;
  if (g.out_h < 0 || g.out_w < 0) {
    const std::string reason = g.out_h < 0 ? "height " + ExplainOutputSize(wanted.rows)
                                           : "width " + ExplainOutputSize(wanted.cols);
    ThrowWindow(
        wanted, "shape/window", FilterInWords(),
        fmt::format("too large for {}: the output would have the {}", InputInWords(), reason));
  }
  if (out_backprop_ && (out_backprop_->h != g.out_h || out_backprop_->w != g.out_w)) {
    ThrowWindow(wanted, "shape/out-backprop", OutBackpropInWords(), WhyNotOutBackprop(wanted));
  }
}

// "expected [8,29,28,64]: height ceil(57 / stride 2) = 29, pads 1+1; inputs of height 55 to 56
// would give 28", with the dimensions that are wrong.
std::string ProblemMaker::WhyNotOutBackprop(const WantedWindows& wanted) const {
  const ConvGeometry& g = geometry_;
  const Shape expected = ToShape({g.batch, g.out_h, g.out_w, g.out_c}, spec_.data_format);
  std::string why = fmt::format("expected {}", ToString(expected));
  const auto add = [&](const char* dimension, const Window& window, int64_t given) {
    why += fmt::format(", {} {}", dimension, ExplainOutputSize(window));
    const std::string inputs = InputSizesInWords(given, window);
    if (!inputs.empty()) {
      why += fmt::format(" (an input {} of {} would give {})", dimension, inputs, given);
    }
  };
  if (out_backprop_->h != g.out_h) add("height", wanted.rows, out_backprop_->h);
  if (out_backprop_->w != g.out_w) add("width", wanted.cols, out_backprop_->w);
  return why;
}

// Limits of what follows from the spec: the output, and the number of products.
void ProblemMaker::CheckProblem(const Problem& problem) const {
  CheckShape("output", problem.OutputShape());
  if (!problem.CheckedTerms()) {
    ThrowData("shape/too-large", fmt::format("{} of {}", FilterInWords(), InputInWords()),
              "the number of products does not fit 62 bits");
  }
}

Problem MakeProblem(const ConvSpec& spec) {
  return ProblemMaker(spec, ProblemMaker::Advice::kSearch).Make();
}

}  // namespace convgrad
