#include "problem/explain.h"

#include <fmt/format.h>

namespace convgrad {
namespace {

std::string FilterInWords(const Window& window) {
  if (window.dilation == 1) return fmt::format("filter {}", window.kernel);
  return fmt::format("filter {} ({} dilated by {})",
                     EffectiveKernel(window.kernel, window.dilation), window.kernel,
                     window.dilation);
}

}  // namespace

std::string ExplainOutputSize(const Window& window) {
  const WindowFit fit = FitWindow(window);
  if (window.padding == Padding::kSame) {
    return fmt::format("ceil({} / stride {}) = {}, pads {}+{}", window.in, window.stride, fit.out,
                       fit.pad_before, fit.pad_after);
  }
  const std::string pads = window.padding == Padding::kExplicit
                               ? fmt::format(" + pads {}+{}", fit.pad_before, fit.pad_after)
                               : "";
  return fmt::format("({}{} - {} + stride {}) / {} = {}", window.in, pads, FilterInWords(window),
                     window.stride, window.stride, fit.out);
}

std::string InputSizesInWords(int64_t out, const Window& window) {
  if (out < 1) return "";
  const SizeRange range = InputSizesFor(out, window);
  if (range.last < range.first) return "";
  if (range.last == range.first) return fmt::format("{}", range.first);
  return fmt::format("{} to {}", range.first, range.last);
}

std::vector<std::string> ExplainSizes(const Problem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Window rows = {g.in_h,          g.kernel_h, g.stride_h,  g.dilation_h,
                       problem.padding, g.pad_top,  g.pad_bottom};
  const Window cols = {g.in_w,          g.kernel_w, g.stride_w, g.dilation_w,
                       problem.padding, g.pad_left, g.pad_right};
  return {"height: " + ExplainOutputSize(rows), "width: " + ExplainOutputSize(cols)};
}

}  // namespace convgrad
