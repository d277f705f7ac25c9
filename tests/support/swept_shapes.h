// Shapes off the list of data/workloads.json, in the same form: grouped layers of known networks,
// then random ones with odd channels, strides, dilations, few images. The same seed gives the same
// shapes everywhere.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/draw.h"

namespace convgrad::testing {

class SweptShapes {
 public:
  explicit SweptShapes(uint64_t seed) : draw_(seed) {}

  // The listed layers and `count` random shapes of each family.
  std::vector<nlohmann::json> All(int64_t count) {
    std::vector<nlohmann::json> shapes = Grouped();
    for (int64_t i = 0; i < count; ++i) shapes.push_back(Random(/*depthwise=*/false));
    for (int64_t i = 0; i < count; ++i) shapes.push_back(Random(/*depthwise=*/true));
    return shapes;
  }

 private:
  struct Layer {
    bool depthwise;
    int64_t batch, size_h, size_w;
    int64_t in_c, out_c, groups;  // depthwise: out_c is in_c x multiplier
    int64_t kernel_h, kernel_w, stride, dilation;
  };

  static nlohmann::json Workload(const Layer& layer) {
    const auto pads = [&](int64_t size, int64_t kernel) {  // SAME's, of any stride
      const int64_t reach = (kernel - 1) * layer.dilation + 1;
      const int64_t out = (size + layer.stride - 1) / layer.stride;
      const int64_t all = std::max<int64_t>(0, (out - 1) * layer.stride + reach - size);
      return std::pair{all / 2, all - all / 2};
    };
    const auto [top, bottom] = pads(layer.size_h, layer.kernel_h);
    const auto [left, right] = pads(layer.size_w, layer.kernel_w);
    return {{"name", fmt::format("{}{}x{}s{}d{}_{}x{}x{}_{}_{}{}", layer.depthwise ? "dw" : "cv",
                                 layer.kernel_h, layer.kernel_w, layer.stride, layer.dilation,
                                 layer.batch, layer.size_h, layer.size_w, layer.in_c, layer.out_c,
                                 layer.groups > 1 ? fmt::format("_g{}", layer.groups) : "")},
            {"op", layer.depthwise ? "depthwise" : "conv2d"},
            {"n", layer.batch},
            {"h", layer.size_h},
            {"w", layer.size_w},
            {"c", layer.in_c},
            {"k", layer.out_c},
            {"mult", layer.out_c / layer.in_c},
            {"groups", layer.groups},
            {"kh", layer.kernel_h},
            {"kw", layer.kernel_w},
            {"sh", layer.stride},
            {"sw", layer.stride},
            {"dh", layer.dilation},
            {"dw", layer.dilation},
            {"pt", top},
            {"pb", bottom},
            {"pl", left},
            {"pr", right},
            {"oh", (layer.size_h + layer.stride - 1) / layer.stride},
            {"ow", (layer.size_w + layer.stride - 1) / layer.stride}};
  }

  // ResNeXt 32x4d, ShuffleNet with 3 groups, AlexNet's second layer.
  static std::vector<nlohmann::json> Grouped() {
    std::vector<nlohmann::json> shapes;
    for (const auto& [size, channels] : {std::pair{56, 128}, {28, 256}, {14, 512}, {7, 1024}}) {
      shapes.push_back(Workload({false, 4, size, size, channels, channels, 32, 3, 3, 1, 1}));
    }
    for (const auto& [size, channels] : {std::pair{28, 240}, {14, 480}, {7, 960}}) {
      shapes.push_back(Workload({false, 8, size, size, channels, channels, 3, 1, 1, 1, 1}));
    }
    shapes.push_back(Workload({false, 8, 27, 27, 96, 256, 2, 5, 5, 1, 1}));
    return shapes;
  }

  nlohmann::json Random(bool depthwise) {
    constexpr int64_t kMostTerms = 200'000'000, kMostNumbers = 2'000'000;
    while (true) {
      Layer layer{depthwise,
                  draw_.OneOf({1, 1, 2, 3, 8, 16, 32}),
                  draw_(3, 70),
                  0,
                  draw_.OneIn(4) ? draw_(3, 9) : draw_(10, 300),
                  0,
                  1,
                  draw_.OneOf({1, 3, 3, 5}),
                  0,
                  draw_.OneOf({1, 1, 1, 2, 3}),
                  draw_.OneOf({1, 1, 1, 2})};
      layer.size_w = draw_.OneIn(3) ? draw_(3, 70) : layer.size_h;
      if (depthwise) {
        layer.kernel_h = draw_(2, 11);
        layer.out_c = layer.in_c * draw_.OneOf({1, 1, 1, 2, 3});
      } else {
        layer.out_c = draw_.OneIn(4) ? draw_(3, 9) : draw_(10, 300);
        if (draw_.OneIn(4)) {
          layer.groups = draw_(2, 16);
          layer.in_c = layer.groups * draw_(2, 40);
          layer.out_c = layer.groups * draw_(2, 40);
        }
      }
      layer.kernel_w = draw_.OneIn(5) ? draw_(1, 7) : layer.kernel_h;
      const int64_t pixels = layer.batch * layer.size_h * layer.size_w;
      const int64_t terms = pixels / (layer.stride * layer.stride) * layer.out_c * layer.kernel_h *
                            layer.kernel_w * (depthwise ? 1 : layer.in_c / layer.groups);
      const int64_t numbers = pixels * std::max(layer.in_c, layer.out_c);
      if (terms <= kMostTerms && terms >= kMostTerms / 200 && numbers <= kMostNumbers) {
        return Workload(layer);
      }
    }
  }

  Draw draw_;
};

}  // namespace convgrad::testing
