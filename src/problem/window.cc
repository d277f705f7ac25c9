#include "problem/window.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/checked.h"

namespace convgrad {
namespace {

// Sum of floor((slope * i + start) / divisor) over i in [0, n), all arguments non-negative and
// divisor positive: Euclid's algorithm on (slope, divisor), each step swapping the axes of the
// lattice points below the line.
int64_t FloorSum(int64_t n, int64_t divisor, int64_t slope, int64_t start) {
  int64_t sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (slope / divisor) + n * (start / divisor);
    slope %= divisor;
    start %= divisor;
    const int64_t end = slope * n + start;
    n = end / divisor;
    start = end % divisor;
    std::swap(slope, divisor);  // a level line makes the divisor 0, but n as well
  }
  return sum;
}

// A box of lattice points (i, j), 0 <= i < num_i and 0 <= j < num_j, each with the value
// i * step_i + j * step_j.
struct Lattice {
  int64_t num_i, step_i, num_j, step_j;

  // Points with a value of at most `limit`: all j for small i, then fewer and fewer.
  int64_t CountUpTo(int64_t limit) const {
    if (num_i <= 0 || num_j <= 0 || limit < 0) return 0;
    const int64_t some = std::min(num_i, limit / step_i + 1);
    const int64_t room = limit - (num_j - 1) * step_j;
    const int64_t full = room < 0 ? 0 : std::min(some, room / step_i + 1);
    const int64_t partial = some - full;
    return full * num_j + partial + FloorSum(partial, step_j, step_i, limit - (some - 1) * step_i);
  }

  // Points with a value in [first, last).
  int64_t CountIn(int64_t first, int64_t last) const {
    if (last <= first) return 0;
    return CountUpTo(last - 1) - CountUpTo(first - 1);
  }
};

// The largest m in [0, limit] for which holds(m); it holds for 0 and for all below one it holds
// for.
template <class Predicate>
int64_t LargestWith(int64_t limit, Predicate holds) {
  int64_t low = 0;
  while (low < limit) {
    const int64_t middle = low + (limit - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      limit = middle - 1;
    }
  }
  return low;
}

}  // namespace

int64_t EffectiveKernel(int64_t kernel, int64_t dilation) {
  return (kernel - 1) * dilation + 1;
}

WindowFit FitWindow(const Window& window) {
  const int64_t effective = EffectiveKernel(window.kernel, window.dilation);
  if (window.padding == Padding::kSame) {
    const int64_t out = (window.in + window.stride - 1) / window.stride;
    const int64_t need = std::max<int64_t>(0, (out - 1) * window.stride + effective - window.in);
    return {out, need / 2, need - need / 2};
  }
  const bool is_explicit = window.padding == Padding::kExplicit;
  const int64_t before = is_explicit ? window.pad_before : 0;
  const int64_t after = is_explicit ? window.pad_after : 0;
  // Truncates toward zero, as TensorFlow's does.
  const int64_t out = (window.in + before + after - effective + window.stride) / window.stride;
  return {out, before, after};
}

SizeRange InputSizesFor(int64_t out, const Window& window) {
  const int64_t first = (out - 1) * window.stride;
  if (window.padding == Padding::kSame) return {first + 1, out * window.stride};
  const int64_t effective = EffectiveKernel(window.kernel, window.dilation);
  const bool is_explicit = window.padding == Padding::kExplicit;
  const int64_t pads = is_explicit ? window.pad_before + window.pad_after : 0;
  const int64_t least = first + effective - pads;
  return {std::max<int64_t>(0, least), least + window.stride - 1};
}

int64_t SpatialAxis::ValidPairs() const {
  return Lattice{out, stride, kernel, dilation}.CountIn(pad, pad + in);
}

// In the three below a run of m pairs that belong together is known by its first pair. One that
// fits exists if some first pair leaves room for the m - 1 others, in the box and on the input.
int64_t SpatialAxis::MaxTapsOfOutput() const {
  return LargestWith(kernel, [this](int64_t m) {
    const Lattice first_pairs = {out, stride, kernel - (m - 1), dilation};
    return first_pairs.CountIn(pad, pad + in - (m - 1) * dilation) > 0;
  });
}

int64_t SpatialAxis::MaxOutputsOfTap() const {
  return LargestWith(out, [this](int64_t m) {
    const Lattice first_pairs = {out - (m - 1), stride, kernel, dilation};
    return first_pairs.CountIn(pad, pad + in - (m - 1) * stride) > 0;
  });
}

// Pairs on one input position are apart by dilation / g outputs and, downward, stride / g taps.
int64_t SpatialAxis::MaxPairsOfInput() const {
  if (out == 0 || kernel == 0) return 0;
  const int64_t common = std::gcd(stride, dilation);  // over 0, since both are
  const int64_t out_step = dilation / common;
  const int64_t tap_step = stride / common;
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): it takes a gcd for a possible 0
  const int64_t limit = std::min((out - 1) / out_step, (kernel - 1) / tap_step) + 1;
  return LargestWith(limit, [&](int64_t m) {
    const int64_t tap_span = (m - 1) * tap_step;
    const Lattice first_pairs = {out - (m - 1) * out_step, stride, kernel - tap_span, dilation};
    const int64_t first = pad - tap_span * dilation;
    return first_pairs.CountIn(first, first + in) > 0;
  });
}

Range ValidTaps(int64_t pos, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel,
                int64_t in) {
  const int64_t origin = pos * stride - pad;
  // Taps k with -origin <= k * dilation < in - origin.
  const int64_t first = std::max<int64_t>(0, FloorDiv(-origin + dilation - 1, dilation));
  const int64_t last = std::min(kernel, FloorDiv(in - origin + dilation - 1, dilation));
  return {std::min(first, kernel), std::max(last, std::min(first, kernel))};
}

Range OutputsOnInput(int64_t at, int64_t stride, int64_t in, int64_t out) {
  const int64_t begin = std::min(out, CeilDiv(std::max<int64_t>(0, -at), stride));
  const int64_t end = CeilDiv(std::max<int64_t>(0, in - at), stride);
  return {begin, std::clamp(end, begin, out)};
}

}  // namespace convgrad
