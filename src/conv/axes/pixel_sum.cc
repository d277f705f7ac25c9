#include "conv/axes/pixel_sum.h"

#include <algorithm>

#include "base/checked.h"

namespace convgrad {

AxisGrid InputGrid(int64_t in, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel,
                   bool sparse) {
  if (!sparse || kernel != 1) return {0, 1, in, stride, dilation, -pad};
  const int64_t first = (stride - pad % stride) % stride;  // congruent to -pad
  const int64_t count = first < in ? CeilDiv(in - first, stride) : 0;
  return {first, stride, count, 1, dilation, -(pad + first) / stride};
}

AxisGrid PaddedGrid(int64_t out, int64_t stride, int64_t dilation, int64_t pad, int64_t kernel) {
  return {-pad, 1, (out - 1) * stride + (kernel - 1) * dilation + 1, stride, dilation, 0};
}

AxisGrid PairGrid(int64_t in, int64_t out, int64_t stride, int64_t dilation, int64_t pad,
                  int64_t kernel, bool sparse) {
  if (!sparse || kernel != 1) {
    return {-stride, 1, in + stride, 2 * stride, dilation, stride - pad};
  }
  return {-pad, 2 * stride, CeilDiv(out, int64_t{2}), 1, dilation, 0};
}

int64_t NumPixelBlocks(const ConvGeometry& g) {
  if (std::min({g.batch, g.out_h, g.out_w}) == 0) return 0;
  const int64_t plane = g.out_h * g.out_w;
  if (plane <= kBlockTerms) return CeilDiv(g.batch, kBlockTerms / plane);
  if (g.out_w <= kBlockTerms) return g.batch * CeilDiv(g.out_h, kBlockTerms / g.out_w);
  return g.batch * g.out_h * CeilDiv(g.out_w, kBlockTerms);
}

PixelBlockSize LargestPixelBlock(const ConvGeometry& g) {
  const int64_t plane = g.out_h * g.out_w;
  if (plane <= kBlockTerms) return {std::min(g.batch, kBlockTerms / plane), g.out_h, g.out_w};
  const int64_t bands = CeilDiv(g.out_h, std::max<int64_t>(1, kBlockTerms / g.out_w));
  return {1, CeilDiv(g.out_h, bands), CeilDiv(g.out_w, CeilDiv(g.out_w, kBlockTerms))};
}

void CountInPairs(std::vector<PixelBlock>& blocks) {
  for (PixelBlock& block : blocks) {
    block.col_begin /= 2;  // even
    block.col_end = CeilDiv(block.col_end, int64_t{2});
  }
}

std::vector<PixelStage> SplitStages(const std::vector<PixelBlock>& blocks, int64_t out_h,
                                    int64_t out_w, int64_t max_pixels, int64_t portion_blocks) {
  std::vector<PixelStage> stages;
  const int64_t num_blocks = static_cast<int64_t>(blocks.size());
  for (int64_t i = 0; i < num_blocks; ++i) {
    const PixelBlock& block = blocks[static_cast<size_t>(i)];
    const bool begins_portion = portion_blocks != 0 && i % portion_blocks == 0;
    if (!stages.empty() && !begins_portion) {
      PixelStage& last = stages.back();
      Slab joined = last.output;
      joined.image_end = block.image_end;
      joined.row_end = std::max(joined.row_end, block.row_end);
      const bool same_rows = block.row_end == last.output.row_end && block.col_begin > 0;
      const bool next_rows = block.image_begin + 1 == last.output.image_end &&
                             last.output.num_images() == 1 &&
                             block.row_begin == last.output.row_end;
      const bool next_image = last.output.num_rows() == out_h;
      const bool fits =
          joined.num_images() * (next_image ? out_h : joined.num_rows()) * out_w <= max_pixels;
      if (same_rows || (fits && (next_rows || next_image))) {
        last.output = joined;
        last.block_end = i + 1;
        continue;
      }
    }
    stages.push_back(
        {{block.image_begin, block.image_end, block.row_begin, block.row_end}, i, i + 1});
  }
  return stages;
}

}  // namespace convgrad
