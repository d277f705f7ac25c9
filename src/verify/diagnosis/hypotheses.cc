// Mistaken attributes: pads, dilations, strides, another operation.
#include "verify/diagnosis/hypotheses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "problem/window.h"

namespace convgrad {
namespace {

struct Offset {
  int64_t top, left;  // pads before the first row and column
  bool operator==(const Offset&) const = default;
};

// Collects places for the first window, each once, and never the right one.
class Offsets {
 public:
  Offsets(const Problem& problem, std::vector<Hypothesis>& hypotheses)
      : problem_(problem),
        hypotheses_(hypotheses),
        seen_{{problem.geometry.pad_top, problem.geometry.pad_left}} {}

  void Try(Offset offset, const char* name, const std::string& sentence) {
    if (offset.top < 0 || offset.left < 0) return;
    if (std::find(seen_.begin(), seen_.end(), offset) != seen_.end()) return;
    seen_.push_back(offset);
    Alternative alternative(problem_);
    ConvGeometry& g = alternative.problem.geometry;
    g.pad_bottom += g.pad_top - offset.top;
    g.pad_right += g.pad_left - offset.left;
    g.pad_top = offset.top;
    g.pad_left = offset.left;
    hypotheses_.push_back({name, sentence, std::move(alternative)});
  }

 private:
  const Problem& problem_;
  std::vector<Hypothesis>& hypotheses_;
  std::vector<Offset> seen_;
};

std::string PadsFlag(const ConvGeometry& g) {
  return fmt::format("--padding {},{},{},{}", g.pad_bottom, g.pad_top, g.pad_right, g.pad_left);
}

// "1", or "1,2" for height and width.
std::string PairInWords(Offset pads) {
  return pads.top == pads.left ? fmt::format("{}", pads.top)
                               : fmt::format("{},{}", pads.top, pads.left);
}

std::string SymmetricPadsInWords(const Problem& problem, Offset pads) {
  const ConvGeometry& g = problem.geometry;
  const std::string number = PairInWords(pads);
  const bool is_pair = number.find(',') != std::string::npos;
  return fmt::format(
      "the golden has the same pad on all sides, as PyTorch's padding={}; {} has the pads {}+{} "
      "and "
      "{}+{} here, which put the windows elsewhere: take the golden's with --padding {}",
      is_pair ? "(" + number + ")" : number, NameOf(problem.padding), g.pad_top, g.pad_bottom,
      g.pad_left, g.pad_right, number);
}

// Pads that were given as numbers, where SAME would lead to the same sizes.
void AddSamePads(const Problem& problem, Offsets& offsets) {
  if (problem.padding != Padding::kExplicit) return;
  const ConvGeometry& g = problem.geometry;
  const WindowFit rows = FitWindow({g.in_h, g.kernel_h, g.stride_h, g.dilation_h, Padding::kSame});
  const WindowFit cols = FitWindow({g.in_w, g.kernel_w, g.stride_w, g.dilation_w, Padding::kSame});
  if (rows.out != g.out_h || cols.out != g.out_w) return;
  offsets.Try({rows.pad_before, cols.pad_before}, "pads-same",
              fmt::format("the golden was made with padding SAME, whose pads are {}+{} and {}+{} "
                          "here, as TensorFlow's and JAX's: check with --padding SAME, or make it "
                          "with your pads",
                          rows.pad_before, rows.pad_after, cols.pad_before, cols.pad_after));
}

void AddOffsets(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const ConvGeometry& g = problem.geometry;
  Offsets offsets(problem, hypotheses);
  AddSamePads(problem, offsets);
  // Before the larger pad in front: with odd kernels and strides the two are one.
  const Offset symmetric = {(g.kernel_h - 1) * g.dilation_h / 2,
                            (g.kernel_w - 1) * g.dilation_w / 2};
  offsets.Try(symmetric, "pads-symmetric", SymmetricPadsInWords(problem, symmetric));
  offsets.Try({g.pad_bottom, g.pad_right}, "pads-swapped",
              fmt::format("the golden has the larger pad in front, where {} puts it behind (Caffe "
                          "and some ports of SAME do so): pad there as TensorFlow does, or take "
                          "its pads here with {}",
                          NameOf(problem.padding), PadsFlag(g)));
  offsets.Try({0, 0}, "padding-ignored",
              "the golden's first window begins at the first row and column, as with VALID: there "
              "the pads in front are missing");
  offsets.Try({g.pad_top + g.pad_bottom, g.pad_left + g.pad_right}, "pads-first",
              "all of the golden's padding is in front of the first row and column: divide it as "
              "TensorFlow does");
  for (const Offset step : {Offset{-1, -1}, Offset{1, 1}, Offset{-1, 0}, Offset{0, -1},
                            Offset{1, 0}, Offset{0, 1}, Offset{-1, 1}, Offset{1, -1}}) {
    offsets.Try({g.pad_top + step.top, g.pad_left + step.left}, "window-offset",
                fmt::format("the golden's windows, and with strides their phase, lie {} rows and "
                            "{} columns off: its pads in front are {} and {}, here {} and {}",
                            -step.top, -step.left, g.pad_top + step.top, g.pad_left + step.left,
                            g.pad_top, g.pad_left));
  }
}

// The pads in front that SAME gives for another dilation.
int64_t SamePad(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation) {
  return std::max<int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - in) / 2;
}

void AddDilations(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const ConvGeometry& g = problem.geometry;
  const char* const ignored =
      "the golden's maker ignored dilations, as TensorFlow's depthwise gradients do: make it with "
      "a filter that has the gaps written out, or check with --dilations 1";
  const auto add = [&](const char* name, const std::string& sentence,
                       std::array<int64_t, 2> dilations, bool refit) {
    if (dilations == std::array<int64_t, 2>{g.dilation_h, g.dilation_w}) return;
    Alternative alternative(problem);
    ConvGeometry& other = alternative.problem.geometry;
    other.dilation_h = dilations[0];
    other.dilation_w = dilations[1];
    if (refit) {
      other.pad_top = SamePad(g.in_h, g.out_h, g.kernel_h, g.stride_h, dilations[0]);
      other.pad_left = SamePad(g.in_w, g.out_w, g.kernel_w, g.stride_w, dilations[1]);
    }
    hypotheses.push_back({name, sentence, std::move(alternative)});
  };
  const std::vector<std::array<int64_t, 2>> likely = {{2, 2}, {3, 3}, {g.stride_h, g.stride_w}};
  for (const bool refit : {true, false}) {
    if (g.dilation_h == 1 && g.dilation_w == 1) {
      for (const auto& [height, width] : likely) {
        if (height == 1 && width == 1) continue;
        add("dilation-added",
            fmt::format("the golden was made with dilations {},{}, where there are none here: "
                        "leave them out there, or check with --dilations {},{}",
                        height, width, height, width),
            {height, width}, refit);
      }
    }
    add("dilation-ignored", ignored, {1, 1}, refit);
    add("dilations-swapped", "the golden's dilations of rows and columns are exchanged",
        {g.dilation_w, g.dilation_h}, refit);
  }
}

void AddStrides(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  const ConvGeometry& g = problem.geometry;
  if (g.stride_h == g.stride_w) return;
  for (const bool refit : {true, false}) {
    Alternative alternative(problem);
    ConvGeometry& other = alternative.problem.geometry;
    std::swap(other.stride_h, other.stride_w);
    if (refit) {
      other.pad_top = SamePad(g.in_h, g.out_h, g.kernel_h, other.stride_h, g.dilation_h);
      other.pad_left = SamePad(g.in_w, g.out_w, g.kernel_w, other.stride_w, g.dilation_w);
    }
    hypotheses.push_back({"strides-swapped",
                          "the golden's strides of rows and columns are exchanged",
                          std::move(alternative)});
  }
}

// Another operation on the same two tensors, or the same on exchanged ones, where all shapes agree.
std::optional<Problem> OtherUse(const Problem& problem, Op op, bool swapped) {
  const auto& roles = InfoOf(problem.op).operands;
  const OpInfo& info = InfoOf(op);
  const ConvGeometry& g = problem.geometry;
  ConvSpec spec;
  spec.op = op;
  spec.dtype = problem.dtype;
  spec.data_format = problem.data_format;
  spec.padding = problem.padding;
  spec.strides = {g.stride_h, g.stride_w};
  spec.dilations = {g.dilation_h, g.dilation_w};
  if (problem.padding == Padding::kExplicit) {
    spec.explicit_paddings = {g.pad_top, g.pad_bottom, g.pad_left, g.pad_right};
  }
  for (int i = 0; i < 2; ++i) {
    const Role role = info.operands[i];
    const Shape shape = problem.ShapeOf(roles[swapped ? 1 - i : i]);
    (role == Role::kInput    ? spec.input
     : role == Role::kFilter ? spec.filter
                             : spec.out_backprop) = shape;
  }
  const Sizes sizes = {problem.ResultShape()};
  if (info.direction == Direction::kBackpropInput) spec.input_sizes = sizes;
  if (info.direction == Direction::kBackpropFilter) spec.filter_sizes = sizes;
  try {
    const Problem other = MakeProblem(spec);
    if (other.ResultShape() == problem.ResultShape()) return other;
  } catch (const Error&) {
  }
  return std::nullopt;
}

void AddOtherUses(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  for (const OpInfo& info : AllOps()) {
    for (const bool swapped : {false, true}) {
      const bool same_op = info.op == problem.op;
      if (same_op && !swapped) continue;
      const std::optional<Problem> other = OtherUse(problem, info.op, swapped);
      if (!other) continue;
      Alternative alternative(*other);
      alternative.operands_are_swapped = swapped;
      if (same_op) {
        hypotheses.push_back({"operands-swapped",
                              "the golden was made with the two operands exchanged: their shapes "
                              "allow it, exchange them on one side",
                              std::move(alternative)});
      } else {
        hypotheses.push_back({"other-operation",
                              fmt::format("the golden is the result of {}, whose shapes are the "
                                          "same: compare it with that operation",
                                          info.name),
                              std::move(alternative)});
      }
    }
  }
}

void AddDataFormat(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  Alternative alternative(problem);
  const bool nhwc = problem.data_format == DataFormat::kNHWC;
  alternative.problem.data_format = nhwc ? DataFormat::kNCHW : DataFormat::kNHWC;
  hypotheses.push_back(
      {"data-format",
       fmt::format("the golden's maker took the numbers of both image tensors as {}: transpose "
                   "them there, a reshape is not enough",
                   NameOf(alternative.problem.data_format)),
       std::move(alternative)});
}

}  // namespace

bool IsResult(const Problem& problem, Role role) {
  const auto& operands = InfoOf(problem.op).operands;
  return operands[0] != role && operands[1] != role;
}

View& ViewOf(Alternative& alternative, Role role) {
  const bool is_first = InfoOf(alternative.problem.op).operands[0] == role;
  return is_first ? alternative.first : alternative.second;
}

void AddAttributes(const Problem& problem, std::vector<Hypothesis>& hypotheses) {
  AddOffsets(problem, hypotheses);
  AddDilations(problem, hypotheses);
  AddStrides(problem, hypotheses);
  AddDataFormat(problem, hypotheses);
  AddOtherUses(problem, hypotheses);
}

std::vector<Hypothesis> AllHypotheses(const Problem& problem) {
  std::vector<Hypothesis> hypotheses;
  AddScalings(problem, hypotheses);
  AddAttributes(problem, hypotheses);
  AddRearrangements(problem, hypotheses);
  AddRelayoutsAndShifts(problem, hypotheses);
  AddOmissions(problem, hypotheses);
  AddActivations(problem, hypotheses);
  AddRoundings(problem, hypotheses);
  return hypotheses;
}

}  // namespace convgrad
