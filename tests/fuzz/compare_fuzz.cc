// Any two tensors under any tolerance, alone and as result and golden of a small problem: a verdict
// whose counts add up, and a tensor always equals itself.
#include <cstring>

#include "base/parallel.h"
#include "conv/compute.h"
#include "fuzz/fuzzing.h"
#include "verify/compare/compare.h"

namespace convgrad::fuzzing {
namespace {

// The next bytes as elements; zeros where they end.
Tensor TakeTensor(Bytes& bytes, DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  const size_t size = static_cast<size_t>(tensor.num_bytes());
  const std::string_view taken = bytes.Take(size);
  if (size == 0) return tensor;
  std::memset(tensor.mutable_raw(), 0, size);
  std::memcpy(tensor.mutable_raw(), taken.data(), taken.size());
  return tensor;
}

void ExpectSound(const CheckResult& result) {
  const CheckResult::Counts& counts = result.counts;
  Expect(counts.suspect + counts.fail <= counts.elements, "more verdicts than elements");
  Expect(counts.differ <= counts.elements, "more differ than there are");
  Expect(
      (result.status == Verdict::kFailed) == (counts.fail > 0 || result.reason == "incomparable"),
      "failed without a failing element, or the reverse");
}

}  // namespace

bool Check(Bytes bytes) {
  static const Parallel parallel(1);
  constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
  const DType dtype = kDTypes[bytes.Choose(4)];
  ConvSpec spec;
  spec.op = AllOps()[bytes.Choose(static_cast<unsigned>(AllOps().size()))].op;
  const OpInfo& info = InfoOf(spec.op);
  spec.dtype = dtype;
  const int64_t height = bytes.Choose(4), width = bytes.Choose(4), channels = bytes.Choose(3);
  spec.strides = {1 + bytes.Choose(2), 1 + bytes.Choose(2)};
  spec.dilations = {1 + bytes.Choose(2), 1};
  const Shape input = {1, height, width, channels};
  const Shape filter = {1 + bytes.Choose(2), 2, channels, 1 + bytes.Choose(2)};
  CompareOptions options;
  const std::string tolerance(bytes.Take(bytes.Choose(32)));
  const bool is_tolerance = Accepts([&] { options.tolerance = ParseTolerance(tolerance); });
  if (!is_tolerance) options.tolerance = {};
  options.keep_errors = bytes.Choose(2) == 1;
  options.golden_is_ours = bytes.Choose(2) == 1;

  const Tensor left = TakeTensor(bytes, dtype, input), right = TakeTensor(bytes, dtype, input);
  ExpectSound(CompareTensors(left, right, options, parallel));
  const CheckResult same = CompareTensors(left, left, options, parallel);
  ExpectSound(same);
  Expect(same.status == Verdict::kPassed, "a tensor that does not equal itself");

  const int64_t out_height = (height + spec.strides[0] - 1) / spec.strides[0];
  const int64_t out_width = (width + spec.strides[1] - 1) / spec.strides[1];
  const Shape output = {1, out_height, out_width, filter[3] * (info.depthwise ? channels : 1)};
  if (info.direction == Direction::kBackpropInput) {
    spec.input_sizes = {input, true};
  } else {
    spec.input = input;
  }
  if (info.direction == Direction::kBackpropFilter) {
    spec.filter_sizes = {filter, true};
  } else {
    spec.filter = filter;
  }
  if (info.direction != Direction::kForward) spec.out_backprop = output;
  const bool is_problem = Accepts([&] {
    const Problem problem = MakeProblem(spec);
    const Tensor first = TakeTensor(bytes, dtype, problem.ShapeOf(info.operands[0]));
    const Tensor second = TakeTensor(bytes, dtype, problem.ShapeOf(info.operands[1]));
    const Tensor golden = TakeTensor(bytes, dtype, problem.ResultShape());
    ExpectSound(CompareToGolden(problem, first, second, golden, golden, options, parallel));
    ExpectSound(CompareToReference(problem, first, second, golden, options, parallel));
  });
  return is_tolerance && is_problem;
}

}  // namespace convgrad::fuzzing
