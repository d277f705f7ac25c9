#include "cli/shards/cost.h"

#include <algorithm>

namespace convgrad::cli {
namespace {

// One thread of a server CPU with AVX-512 (2.8 GHz), measured with `check` and `run` on shapes of
// ResNet and MobileNet.
constexpr double kFlopsPerSecond = 100e9;
constexpr double kDepthwiseFlopsPerSecond = 10e9;
constexpr double kFloat64Factor = 4;  // half as many lanes, and sums of products in two parts
// Reading, statistics, hashing and writing together.
constexpr double kBytesPerSecond = 0.5e9;
// The exact value and the bound: for each product, and for each element of the result.
constexpr double kCheckedFlopsPerSecond = 4e9;
constexpr double kCheckedDepthwiseFlopsPerSecond = 1e9;
constexpr double kSecondsPerCheckedElement = 150e-9;
// Opening, planning, renaming, reporting.
constexpr double kSecondsPerCase = 0.2e-3;

double FlopsPerSecond(const Problem& problem) {
  const double rate = InfoOf(problem.op).depthwise ? kDepthwiseFlopsPerSecond : kFlopsPerSecond;
  return problem.dtype == DType::kFloat64 ? rate / kFloat64Factor : rate;
}

// How many times as long as at standard precision.
double FactorOf(Precision precision, const Problem& problem) {
  if (precision == Precision::kStandard) return 1;
  const bool depthwise = InfoOf(problem.op).depthwise;
  if (problem.dtype == DType::kFloat64) return depthwise ? 33 : 9;
  if (precision == Precision::kDouble) return depthwise ? 3.5 : 2.5;
  return depthwise ? 9 : 5;
}

double CheckSeconds(const Problem& problem) {
  const double elements =
      static_cast<double>(problem.ResultBytes()) / static_cast<double>(InfoOf(problem.dtype).bytes);
  const double rate =
      InfoOf(problem.op).depthwise ? kCheckedDepthwiseFlopsPerSecond : kCheckedFlopsPerSecond;
  return static_cast<double>(problem.Flops()) / rate + elements * kSecondsPerCheckedElement;
}

}  // namespace

double PredictSeconds(const Problem& problem, Checking checking, Precision precision) {
  const double compute =
      static_cast<double>(problem.Flops()) / FlopsPerSecond(problem) * FactorOf(precision, problem);
  const double bytes =
      static_cast<double>(problem.OperandBytes()) +
      static_cast<double>(problem.ResultBytes()) * (checking == Checking::kNone ? 1 : 2);
  const double seconds = kSecondsPerCase + std::max(compute, bytes / kBytesPerSecond);
  return checking == Checking::kBound ? seconds + CheckSeconds(problem) : seconds;
}

double PredictCutFactor(const Problem& problem) {
  if (InfoOf(problem.op).direction != Direction::kBackpropFilter) return 1;
  switch (problem.dtype) {
    case DType::kFloat32: return 2.5;
    case DType::kFloat64: return 1;
    default: return 1.5;
  }
}

double PredictFailureSeconds() {
  return kSecondsPerCase;
}

}  // namespace convgrad::cli
