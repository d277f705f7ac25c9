// More of the usual mistakes, alone and in likely pairs, each made by a kernel of the test's own:
// biases and activations, ends of loops, what surrounds the input, groups, images, lost updates,
// memory that nobody wrote. Each must be named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/diagnosis_testing.h"

namespace convgrad::testing {
namespace {

Direction DirectionOf(const Problem& problem) {
  return InfoOf(problem.op).direction;
}
bool IsForward(const Problem& problem) {
  return DirectionOf(problem) == Direction::kForward;
}
bool IsSum(const Problem& problem) {
  return DirectionOf(problem) == Direction::kBackpropFilter;
}
bool HasPads(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  return g.pad_top + g.pad_bottom + g.pad_left + g.pad_right > 0;
}

// The channel of an element, where the result is an image tensor.
int64_t ChannelOf(const Problem& problem, int64_t element) {
  const Shape shape = problem.ResultShape();
  return problem.data_format == DataFormat::kNHWC ? element % shape[3]
                                                  : element / (shape[2] * shape[3]) % shape[1];
}

// --- alone ---

bool AddBias(const Problem& problem, Mistake& mistake) {
  mistake.finish = [](int64_t, double sum) { return sum + 0.375; };
  return !IsSum(problem);
}
bool AddBiasByChannel(const Problem& problem, Mistake& mistake) {
  mistake.finish = [problem](int64_t element, double sum) {
    return sum + 0.25 * std::sin(static_cast<double>(ChannelOf(problem, element) + 1));
  };
  return !IsSum(problem);
}
bool Clip(const Problem& problem, Mistake& mistake) {
  mistake.result = [](double sum) { return std::clamp(sum, 0.0, 6.0); };
  return IsForward(problem);
}
bool Rectify(const Problem& problem, Mistake& mistake) {
  mistake.result = [](double sum) { return std::max(sum, 0.0); };
  return IsForward(problem);
}

bool DropChannels(const Problem& problem, Mistake& mistake, int64_t step) {
  const ConvGeometry& g = problem.geometry;
  const bool forward = IsForward(problem);
  const int64_t channels = forward ? g.group_in_c : g.group_out_c, kept = channels / step * step;
  mistake.is_left_out = [=](const Index4& x, const Index4&, const Index4& y) {
    return (forward ? x[3] : y[3]) % channels >= kept;
  };
  return !IsSum(problem) && kept > 0 && kept < channels;
}
bool DropPixels(const Problem& problem, Mistake& mistake, int64_t step) {
  const int64_t cols = problem.geometry.out_w, plane = problem.geometry.out_h * cols;
  mistake.is_left_out = [=](const Index4&, const Index4&, const Index4& y) {
    return y[1] * cols + y[2] >= plane / step * step;
  };
  return IsSum(problem) && plane > step && plane % step != 0;
}
bool DropRows(const Problem& problem, Mistake& mistake) {
  const int64_t last = problem.geometry.out_h - 1;
  mistake.is_left_out = [=](const Index4&, const Index4&, const Index4& y) { return y[1] == last; };
  return IsSum(problem) && last > 0;
}
bool DropEndOfBatch(const Problem& problem, Mistake& mistake) {
  const ConvGeometry& g = problem.geometry;
  const int64_t cols = g.out_w, plane = g.out_h * cols, kept = g.batch * plane / 16 * 16;
  mistake.is_left_out = [=](const Index4&, const Index4&, const Index4& y) {
    return y[0] * plane + y[1] * cols + y[2] >= kept;
  };
  return IsSum(problem) && kept > 0 && kept < g.batch * plane;
}
bool MissTap(const Problem& problem, Mistake& mistake) {
  const int64_t row = problem.geometry.kernel_h / 2, col = problem.geometry.kernel_w - 1;
  mistake.is_left_out = [=](const Index4&, const Index4& w, const Index4&) {
    return w[0] == row && w[1] == col;
  };
  return !IsSum(problem) && row + col > 0;
}
bool MissKernelRow(const Problem& problem, Mistake& mistake) {
  const int64_t last = problem.geometry.kernel_h - 1;
  mistake.is_left_out = [=](const Index4&, const Index4& w, const Index4&) { return w[0] == last; };
  return !IsSum(problem) && last > 0;
}

bool Surround(const Problem& problem, Mistake& mistake, int64_t (*beyond)(int64_t, int64_t)) {
  mistake.beyond = beyond;
  return HasPads(problem) && DirectionOf(problem) != Direction::kBackpropInput;
}

// On the images of the result, or of one operand of a sum over them.
bool MoveImages(const Problem& problem, Mistake& mistake, int64_t (*move)(int64_t, int64_t)) {
  const int64_t batch = problem.geometry.batch;
  (IsForward(problem) ? mistake.output : mistake.input) = [=](Index4 at) {
    at[0] = move(at[0], batch);
    return at;
  };
  return batch > 1;
}

bool ReverseGroups(const Problem& problem, Mistake& mistake) {
  const int64_t groups = problem.geometry.groups, members = problem.geometry.group_out_c;
  mistake.output = [=](Index4 at) {
    at[3] = (groups - 1 - at[3] / members) * members + at[3] % members;
    return at;
  };
  return groups > 1;
}
bool ReadFirstGroup(const Problem& problem, Mistake& mistake) {
  const int64_t members = problem.geometry.group_in_c;
  mistake.input = [=](Index4 at) {
    at[3] %= members;
    return at;
  };
  return problem.geometry.groups > 1;
}
bool UseFirstFilterGroup(const Problem& problem, Mistake& mistake) {
  const bool depthwise = InfoOf(problem.op).depthwise;
  const int64_t members = problem.geometry.group_out_c;
  mistake.filter = [=](Index4 at) {
    if (depthwise) {
      at[2] = 0;
    } else {
      at[3] %= members;
    }
    return at;
  };
  return problem.geometry.groups > 1;
}

bool Dilate(const Problem& problem, Mistake& mistake) {
  mistake.geometry.dilation_h = mistake.geometry.dilation_w = 2;
  return problem.geometry.dilation_h == 1 && problem.geometry.dilation_w == 1;
}

// The numbers of the output as [image,column,row,channel] in memory, under its shape.
bool ExchangeHeightAndWidth(const Problem& problem, Mistake& mistake) {
  const ConvGeometry& g = problem.geometry;
  mistake.output = [g](Index4 at) {
    const int64_t place = at[1] * g.out_w + at[2];
    return Index4{at[0], place % g.out_h, place / g.out_h, at[3]};
  };
  return true;
}

bool LoseUpdate(const Problem& problem, Mistake& mistake, bool of_outputs) {
  const ConvGeometry& g = problem.geometry;
  const int64_t image = g.batch - 1;
  mistake.is_left_out = [=](const Index4& x, const Index4&, const Index4& y) {
    return y[0] == image && (of_outputs ? y[3] : x[3]) % 3 == 1;
  };
  return IsSum(problem) && g.batch > 1 && (of_outputs ? g.out_c : g.in_c) > 1;
}

// The last part of memory.
bool LeaveTail(const Problem& problem, Mistake& mistake, double (*number)(int64_t element)) {
  int64_t size = 1;
  for (const int64_t one : problem.ResultShape()) size *= one;
  const int64_t begin = size - std::max<int64_t>(size / 5, 64);
  mistake.stored = [=](int64_t element, double right) {
    return element < begin ? right : number(element);
  };
  return begin > 0;
}
double Pattern(int64_t) {
  return -24.5;
}
double ChanceBits(int64_t element) {
  std::mt19937_64 random(static_cast<uint64_t>(element) + 1);
  return std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                    static_cast<int>(random() % 250) - 125);
}
bool HasWideRange(const Problem& problem) {
  return problem.dtype != DType::kFloat16;
}

const Mishap kAlone[] = {
    {"bias-added", AddBias},
    {"bias-added", AddBiasByChannel},
    {"relu6", Clip},
    {"tail-dropped",
     [](const Problem& problem, Mistake& mistake) { return DropChannels(problem, mistake, 16); }},
    {"tail-dropped",
     [](const Problem& problem, Mistake& mistake) { return DropChannels(problem, mistake, 4); }},
    {"tail-dropped",
     [](const Problem& problem, Mistake& mistake) { return DropPixels(problem, mistake, 8); }},
    {"tail-dropped", DropRows},
    {"tail-dropped", DropEndOfBatch},
    {"tap-missing", MissTap},
    {"tap-missing", MissKernelRow},
    {"edge-padding",
     [](const Problem& problem, Mistake& mistake) {
       return Surround(problem, mistake,
                       [](int64_t at, int64_t size) -> int64_t { return at < 0 ? 0 : size - 1; });
     }},
    {"reflect-padding",
     [](const Problem& problem, Mistake& mistake) {
       const ConvGeometry& g = problem.geometry;
       const int64_t most = std::max({g.pad_top, g.pad_bottom, g.pad_left, g.pad_right});
       return most < std::min(g.in_h, g.in_w) &&
              Surround(problem, mistake, [](int64_t at, int64_t size) -> int64_t {
                return at < 0 ? -at : 2 * size - 2 - at;
              });
     }},
    {"symmetric-padding",
     [](const Problem& problem, Mistake& mistake) {
       const ConvGeometry& g = problem.geometry;
       const int64_t most = std::max({g.pad_top, g.pad_bottom, g.pad_left, g.pad_right});
       return most < std::min(g.in_h, g.in_w) &&
              Surround(problem, mistake, [](int64_t at, int64_t size) -> int64_t {
                return at < 0 ? -at - 1 : 2 * size - 1 - at;
              });
     }},
    {"wrap-padding",
     [](const Problem& problem, Mistake& mistake) {
       return Surround(problem, mistake, [](int64_t at, int64_t size) -> int64_t {
         return ((at % size) + size) % size;
       });
     }},
    {"images-exchanged",
     [](const Problem& problem, Mistake& mistake) {
       return MoveImages(problem, mistake, [](int64_t image, int64_t) -> int64_t {
         return image < 2 ? 1 - image : image;
       });
     }},
    {"images-reversed",
     [](const Problem& problem, Mistake& mistake) {
       return MoveImages(problem, mistake,
                         [](int64_t image, int64_t batch) -> int64_t { return batch - 1 - image; });
     }},
    {"group-order", ReverseGroups},
    {"first-group", ReadFirstGroup},
    {"first-group", UseFirstFilterGroup},
    {"dilation-added", Dilate},
    {"height-width-order", ExchangeHeightAndWidth},
    {"lost-update",
     [](const Problem& problem, Mistake& mistake) { return LoseUpdate(problem, mistake, true); }},
    {"lost-update",
     [](const Problem& problem, Mistake& mistake) { return LoseUpdate(problem, mistake, false); }},
    {"unwritten-constant",
     [](const Problem& problem, Mistake& mistake) { return LeaveTail(problem, mistake, Pattern); }},
    {"unwritten-garbage",
     [](const Problem& problem, Mistake& mistake) {
       return HasWideRange(problem) && LeaveTail(problem, mistake, ChanceBits);
     }},
};

TEST(Diagnosis, NamesMoreOfTheUsualMistakes) {
  ExpectNamed(kAlone, 20261124);
}

// --- in pairs ---

bool SwapUnequalPads(const Problem& problem, Mistake& mistake) {
  ConvGeometry& g = mistake.geometry;
  std::swap(g.pad_top, g.pad_bottom);
  std::swap(g.pad_left, g.pad_right);
  return problem.padding != Padding::kValid &&
         (g.pad_top != g.pad_bottom || g.pad_left != g.pad_right);
}
bool IgnorePads(const Problem& problem, Mistake& mistake) {
  mistake.geometry.pad_top = mistake.geometry.pad_left = 0;
  return problem.geometry.pad_top + problem.geometry.pad_left > 0;
}
bool IgnoreDilations(const Problem& problem, Mistake& mistake) {
  mistake.geometry.dilation_h = mistake.geometry.dilation_w = 1;
  return problem.geometry.dilation_h * problem.geometry.dilation_w > 1;
}
bool Flip(const Problem& problem, Mistake& mistake) {
  const ConvGeometry g = problem.geometry;
  mistake.filter = [g](Index4 at) {
    return Index4{g.kernel_h - 1 - at[0], g.kernel_w - 1 - at[1], at[2], at[3]};
  };
  return g.kernel_h * g.kernel_w > 1;
}
bool TransposeChannels(const Problem& problem, Mistake& mistake) {
  const Shape sizes = problem.FilterShape();
  mistake.filter = [](Index4 at) { return Index4{at[0], at[1], at[3], at[2]}; };
  return !InfoOf(problem.op).depthwise && sizes[2] == sizes[3] && sizes[2] > 1;
}
bool DivideByBatch(const Problem& problem, Mistake& mistake) {
  mistake.result = [batch = static_cast<double>(problem.geometry.batch)](double sum) {
    return sum / batch;
  };
  return IsSum(problem) && problem.geometry.batch > 1;
}

template <auto one, auto other>
bool Both(const Problem& problem, Mistake& mistake) {
  return one(problem, mistake) && other(problem, mistake);
}

const Mishap kPairs[] = {
    {"pads-swapped+rectified", Both<SwapUnequalPads, Rectify>},
    {"padding-ignored+relu6", Both<IgnorePads, Clip>},
    {"pads-swapped+filter-flipped", Both<SwapUnequalPads, Flip>},
    {"padding-ignored+filter-flipped", Both<IgnorePads, Flip>},
    {"padding-ignored+channels-transposed", Both<IgnorePads, TransposeChannels>},
    {"padding-ignored+batch-mean", Both<IgnorePads, DivideByBatch>},
    {"dilation-ignored+filter-flipped", Both<IgnoreDilations, Flip>},
    {"filter-flipped+batch-mean", Both<Flip, DivideByBatch>},
    {"filter-flipped+rectified", Both<Flip, Rectify>},
    {"bias-added+rectified", Both<AddBias, Rectify>},
    {"bias-added+rectified", Both<AddBiasByChannel, Rectify>},
    {"bias-added+padding-ignored", Both<AddBias, IgnorePads>},
    {"bias-added+pads-swapped", Both<AddBiasByChannel, SwapUnequalPads>},
};

TEST(Diagnosis, NamesLikelyPairs) {
  ExpectNamed(kPairs, 20261125);
}

}  // namespace
}  // namespace convgrad::testing
