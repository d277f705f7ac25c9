#include "measure/roofline.h"

#include <algorithm>
#include <vector>

namespace convgrad {
namespace {

// Positions of one dimension of the input that some tap of some output falls on.
int64_t ReachedPositions(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                         int64_t pad) {
  constexpr int64_t kMostToCount = int64_t{1} << 20;  // beyond, all are taken to be reached
  const bool has_gaps = dilation > 1 || stride > kernel;
  if (!has_gaps) {
    const int64_t end = out == 0 ? 0 : (out - 1) * stride + kernel - pad;
    return std::max<int64_t>(0, std::min(in, end) - std::max<int64_t>(0, -pad));
  }
  if (in > kMostToCount) return in;
  std::vector<bool> reached(static_cast<size_t>(in));
  for (int64_t pos = 0; pos < out; ++pos) {
    const Range taps = ValidTaps(pos, stride, dilation, pad, kernel, in);
    for (int64_t k = taps.begin; k < taps.end; ++k) {
      reached[static_cast<size_t>(pos * stride + k * dilation - pad)] = true;
    }
  }
  return std::count(reached.begin(), reached.end(), true);
}

double Seconds(double amount, double giga_per_second) {
  return giga_per_second > 0 ? amount / giga_per_second / 1e9 : 0;
}

}  // namespace

int64_t NeededOperandBytes(const Problem& problem) {
  if (problem.Flops() == 0) return 0;
  if (InfoOf(problem.op).direction == Direction::kBackpropInput) return problem.OperandBytes();
  const ConvGeometry& g = problem.geometry;
  const int64_t reached =
      ReachedPositions(g.in_h, g.out_h, g.kernel_h, g.stride_h, g.dilation_h, g.pad_top) *
      ReachedPositions(g.in_w, g.out_w, g.kernel_w, g.stride_w, g.dilation_w, g.pad_left);
  const int64_t missed = g.in_h * g.in_w - reached;
  return problem.OperandBytes() - g.batch * g.in_c * missed * InfoOf(problem.dtype).bytes;
}

Roofline RooflineOf(const Problem& problem, const Peaks& peaks, bool cold) {
  const int64_t operand_bytes = NeededOperandBytes(problem);
  const int64_t result_bytes = problem.ResultBytes();
  const LevelPeak& level = cold ? peaks.levels.back() : peaks.LevelOf(operand_bytes + result_bytes);
  Roofline roofline;
  roofline.peak_gflops = problem.dtype == DType::kFloat64 ? peaks.f64_gflops : peaks.f32_gflops;
  const double compute = Seconds(static_cast<double>(problem.Flops()), roofline.peak_gflops);
  const double transfer = Seconds(static_cast<double>(operand_bytes), level.read_gbs) +
                          Seconds(static_cast<double>(result_bytes), level.write_gbs);
  roofline.seconds = std::max(compute, transfer);
  roofline.bound = compute >= transfer ? "compute" : level.name;
  roofline.peak_gbs = transfer > 0
                          ? static_cast<double>(operand_bytes + result_bytes) / transfer / 1e9
                          : level.read_gbs;
  roofline.is_provisional = !peaks.confirmed;
  return roofline;
}

}  // namespace convgrad
