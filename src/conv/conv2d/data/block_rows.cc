#include "conv/conv2d/data/block_rows.h"

#include <iterator>

#include "conv/plan/work.h"

namespace convgrad {

BlockRows::BlockRows(const TapSum& sum, const std::vector<TapPhase>& phases, const PlaneAxis& rows,
                     const PlaneAxis& cols)
    : term_step(sum.forward ? sum.result_c * sum.groups : 1),
      group_step(sum.forward ? sum.result_c : sum.source_c) {
  const int64_t out_c = sum.groups * group_step;
  int64_t most_taps = 0;
  for (const TapPhase& phase : phases) {
    phase_sums.push_back(num_sums);
    num_blocks.push_back(std::ssize(phase.blocks));
    num_sums += sum.result_c * num_blocks.back();
    for (const TapBlock& block : phase.blocks) {
      most_taps = std::max(most_taps, block.tap_end - block.tap_begin);
    }
  }
  // Tap `nth` of a block goes to the product of its channels, which may begin with it.
  const auto add = [&](size_t index, int64_t b, int64_t nth, size_t first_product) {
    const TapPhase& phase = phases[index];
    const TapBlock& block = phase.blocks[static_cast<size_t>(b)];
    const int64_t tap = block.tap_begin + nth;
    if (tap >= block.tap_end) return;
    const size_t num_cols = phase.cols->taps.size();
    const size_t r = static_cast<size_t>(tap) / num_cols, c = static_cast<size_t>(tap) % num_cols;
    const PlaneAxis::Tap& row = rows.taps[index / sum.col_phases.size()][r];
    const PlaneAxis::Tap& col = cols.taps[index % sum.col_phases.size()][c];
    const int64_t shift = (row.index - rows.low) * cols.extent + col.index - cols.low;
    most_shift = std::max(most_shift, shift);
    size_t i = first_product;
    while (i < products.size() && (products[i].channel_begin != block.channel_begin ||
                                   products[i].channel_end != block.channel_end)) {
      ++i;
    }
    if (i == products.size()) {
      products.push_back({block.channel_begin, block.channel_end, nth > 0, {}});
    }
    const int64_t filter_tap = phase.rows->taps[r] * sum.kernel_w + phase.cols->taps[c];
    for (int64_t channel = 0; channel < sum.result_c; ++channel) {
      const int64_t filter =
          sum.forward ? (filter_tap * sum.source_c + block.channel_begin) * out_c + channel
                      : (filter_tap * sum.result_c + channel) * out_c + block.channel_begin;
      products[i].rows.push_back({SumsOf(index, channel) + b, filter, shift});
    }
  };
  for (int64_t nth = 0; nth < most_taps; ++nth) {
    const size_t first_product = products.size();
    for (size_t index = 0; index < phases.size(); ++index) {
      for (int64_t b = 0; b < num_blocks[index]; ++b) add(index, b, nth, first_product);
    }
  }
}

int64_t BlockRows::MostRows() const {
  int64_t most = 0;
  for (const BlockProduct& product : products) most = std::max(most, std::ssize(product.rows));
  return most;
}

bool PaysToTakeBlocksAsRows(const TapSum& sum, const std::vector<TapPhase>& phases,
                            const PlaneAxis& rows, const PlaneAxis& cols) {
  constexpr int64_t kFewChannels = 4, kFewTerms = 16, kManyTerms = 128;
  constexpr double kMostMargins = 2 << 20;  // numbers
  int64_t blocks = 0;
  for (const TapPhase& phase : phases) blocks += std::ssize(phase.blocks);
  const bool steps_by_one =
      sum.row_phases.front().source_step == 1 && sum.col_phases.front().source_step == 1;
  const double margins = Product(sum.result_c, blocks, cols.extent) *
                         Product(rows.extent - sum.row_phases.front().count);
  return margins <= kMostMargins && steps_by_one && !sum.in_pairs &&
         sum.kernel_h * sum.kernel_w > 1 && blocks > 1 &&
         (sum.result_c == 1 ? sum.source_c >= kFewTerms
                            : sum.result_c <= kFewChannels && sum.source_c > kManyTerms);
}

}  // namespace convgrad
