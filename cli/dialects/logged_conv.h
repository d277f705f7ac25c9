// A convolution as a line of another program says it, and the manifest's case that it becomes. Must
// not know any program's lines.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "problem/geometry.h"

namespace convgrad::cli {

// Why a line is no case: `reason` is the same for all lines of its kind, so that they can be
// counted together; `detail` is about this line and may be empty.
class Refusal : public std::runtime_error {
 public:
  explicit Refusal(const std::string& reason, std::string detail = "")
      : std::runtime_error(reason), detail_(std::move(detail)) {}

  std::string reason() const { return what(); }
  const std::string& detail() const { return detail_; }

 private:
  std::string detail_;
};

// The largest number that a line may have: sums of products of two stay far below 2^63.
inline constexpr int64_t kMostLogged = int64_t{1} << 30;
// Throws Refusal for another.
void CheckLogged(int64_t number);

// Reasons that several dialects give.
inline constexpr const char* kThreeDimensional = "a 3-D convolution: convgrad computes 2-D and 1-D";
inline constexpr const char* kMalformed = "malformed or truncated";
inline constexpr const char* kContradiction = "its numbers contradict each other";
inline constexpr const char* kTooLarge = "a number below 0, or beyond 2^30";
inline constexpr const char* kMixedTypes = "operands and result of different types";
inline constexpr const char* kFlippedFilter =
    "a convolution with a flipped filter, not a cross-correlation";

// One spatial dimension. Dilation 1 is a dense filter.
struct LoggedAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  // The input positions that a filter spans.
  int64_t Extent() const;
  // `out` as it follows from the other numbers.
  int64_t ExpectedOut() const;
  // The pads at the end with which `in` gives `out`, where only pads at the beginning are told. An
  // output that leaves the last positions of the input unread needs none.
  void InferPadEnd();
  // Throws Refusal for numbers that no line may have.
  void CheckRange() const;
};

// A 1-D convolution has rows of height one.
struct LoggedConv {
  Direction direction = Direction::kForward;
  DType dtype = DType::kFloat32;
  DataFormat data_format = DataFormat::kNCHW;
  FilterFormat filter_format = FilterFormat::kOIHW;
  int64_t batch = 1, in_c = 1, out_c = 1, groups = 1;
  LoggedAxis rows, cols;
  bool has_bias = false;      // left out of the case
  bool has_post_ops = false;  // likewise

  // A transposed convolution is the input gradient of the convolution that has its numbers: turns
  // what was said of the former into the latter.
  void Transpose();

  // Returns the same problem, checked as any other is; a convolution with as many groups as
  // channels is depthwise. Throws Refusal where it is none.
  Problem ToProblem() const;
};

// The type by any of its names, or Refusal that names it.
DType ParseLoggedType(std::string_view name);

// The keys of a manifest's case, without the braces: op, types, shapes of generated operands and
// attributes.
std::string CaseKeysOf(const LoggedConv& conv, const Problem& problem);

}  // namespace convgrad::cli
