// From a user's attributes and shapes to a checked convolution geometry. All of TensorFlow's window
// arithmetic and every refusal lives behind MakeProblem.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/range.h"
#include "problem/filter_format.h"
#include "problem/op.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace convgrad {

enum class DataFormat { kNHWC, kNCHW };
enum class Padding { kSame, kValid, kExplicit };

const char* NameOf(DataFormat format);
const char* NameOf(Padding padding);

// A sizes vector as given: its values, and whether they came from a file (then a malformed vector
// is a data error, else usage).
struct Sizes {
  std::vector<int64_t> values;
  bool from_file = false;
};

// The user's words, unchecked. Shapes of tensors are in data_format order, those of filters in
// filter_format order.
struct ConvSpec {
  Op op = Op::kConv2D;
  DType dtype = DType::kFloat32;
  DataFormat data_format = DataFormat::kNHWC;
  FilterFormat filter_format = FilterFormat::kHWIO;
  Padding padding = Padding::kSame;
  std::vector<int64_t> strides = {1};                // 1, 2 (H,W) or 4 values (data_format order)
  std::vector<int64_t> dilations = {1};              // likewise
  std::vector<int64_t> explicit_paddings;            // empty, 4 (top,bottom,left,right) or 8 values
  std::optional<Shape> input, filter, out_backprop;  // shapes of the operand tensors of `op`
  std::optional<Sizes> input_sizes, filter_sizes;
  std::optional<int64_t> groups;  // none: whatever follows from the shapes
};

// A legal convolution. The logical sizes, whatever the layout. Depthwise ops are grouped ones with
// groups == in_c and the filter [kh,kw,in_c,multiplier] seen as [kh,kw,1,out_c]: output channel o
// belongs to group o / (out_c / groups), which reads input channels
// [group * in_c / groups, (group + 1) * in_c / groups). Only MakeProblem makes one.
struct ConvGeometry {
  int64_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
  int64_t kernel_h, kernel_w;
  int64_t groups;                   // 0 only if in_c is 0, then group_out_c too unless depthwise
  int64_t group_in_c, group_out_c;  // channels of one group; 1 and the multiplier for depthwise
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;

 private:
  ConvGeometry() = default;
  friend class ProblemMaker;
};

// Op + geometry + type: the identity of a computation.
struct Problem {
  Op op;
  DType dtype;
  DataFormat data_format;
  Padding padding;
  ConvGeometry geometry;

  // Shapes in data_format order.
  Shape InputShape() const;
  Shape FilterShape() const;  // [kh,kw,group_in_c,out_c]; depthwise [kh,kw,in_c,multiplier]
  Shape OutputShape() const;  // of the output, and so of out_backprop
  Shape ShapeOf(Role role) const;
  Shape ResultShape() const;
  int64_t NumElements(Role role) const;
  int64_t NumResults() const;

  // True if there is anything to add up. Without elements on all three sides there isn't, and an
  // empty sum is +0.
  bool HasTerms() const;
  // Products that fall on the input, over all outputs: each is one multiplication and one addition.
  int64_t ValidTerms() const;
  // The same where it is not known to fit 62 bits; MakeProblem refuses more.
  std::optional<int64_t> CheckedTerms() const;
  int64_t Flops() const { return 2 * ValidTerms(); }
  // Largest number of terms of one element of the result.
  int64_t MaxTerms() const;
  int64_t OperandBytes() const;
  int64_t ResultBytes() const;

  // One line that ParseProblem reads back, e.g.
  // "depthwise_conv2d_backprop_filter float32 NHWC in=8,56,56,32 filter=3,3,32,1 strides=1,1
  //  dilations=1,1 pads=1,1,1,1 padding=SAME" (one blank between fields).
  std::string ToLine() const;
};

// Checks everything TensorFlow's kernels check and what it forgets, in TensorFlow's order; throws
// usage for attributes and inline sizes, data for shapes. Nothing is allocated.
Problem MakeProblem(const ConvSpec& spec);
Problem ParseProblem(const std::string& line);

// Valid taps of one dimension: those k in [0, kernel) for which 0 <= pos*stride + k*dilation - pad
// < in.
Range ValidTaps(int64_t pos, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel,
                int64_t in);
// The other way round, output positions of one tap, `at` = k*dilation - pad: those pos in [0, out)
// for which 0 <= pos*stride + at < in.
Range OutputsOnInput(int64_t at, int64_t stride, int64_t in, int64_t out);

}  // namespace convgrad
