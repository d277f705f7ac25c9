#include "verify/arithmetic/model.h"

#include <fmt/format.h>

namespace convgrad {
namespace {

constexpr ModelKind kPartialsRounded = {"partials-rounded",
                                        "Keep partial sums in float32, and round their total once"};
constexpr ModelKind kNarrowSums = {"narrow-sums", "Sum in float32"};
constexpr ModelKind kTruncatedSums = {
    "truncated-sums",
    "That is how matrix units add; where it is too coarse, add their results in float32 after "
    "fewer terms",
    /*is_mistake=*/false};
constexpr ModelKind kOperandsRounded = {
    "operands-rounded", "Switch that off (allow_tf32 and the like), or round the files too"};
constexpr ModelKind kFlushed = {"subnormals-flushed",
                                "Clear FTZ and DAZ there (fast-math options set them at start)"};
constexpr ModelKind kOrder = {"summation-order", "Only the order of summation differs",
                              /*is_mistake=*/false};

bool IsNarrower(Format format, DType dtype) {
  const Format wide = dtype == DType::kFloat64 ? Format::kFloat64 : Format::kFloat32;
  return InfoOf(format).fraction_bits < InfoOf(wide).fraction_bits;
}

const char* WordsOf(Join join) {
  switch (join) {
    case Join::kInOrder: return "in order";
    case Join::kReversed: return "the last first";
    case Join::kNeighbours: return "pairwise";
    case Join::kHalves: return "pairwise by halves";
  }
  return "";
}

std::string PartialsInWords(const Model& model, bool is_filter_gradient) {
  const LoopOrder& order = model.sequence.order;
  const auto axis_name = [&](size_t level) -> const char* {
    constexpr const char* kPixels[] = {"image", "row", "column"};
    constexpr const char* kTaps[] = {"tap row", "tap column", "channel"};
    const uint8_t axis = order.axes[level];
    return is_filter_gradient ? kPixels[axis] : kTaps[axis];
  };
  const char* outer = order.channel_block > 0 ? "block of channels" : axis_name(0);
  switch (model.split) {
    case Split::kNone: return "";
    case Split::kPieces:
    case Split::kBalanced: return fmt::format("{} partials", model.parts);
    case Split::kTiles: return fmt::format("partials of {} terms", model.parts);
    case Split::kOuter: return fmt::format("a partial for each {}", outer);
    case Split::kOuterTwo:
      return fmt::format("a partial for each {} and {}", outer,
                         order.channel_block > 0 ? "tap row" : axis_name(1));
    case Split::kInterleaved: break;
  }
  return model.run == 1
             ? fmt::format("{} interleaved partials", model.parts)
             : fmt::format("{} partials that take {} terms in turn", model.parts, model.run);
}

std::string ChainInWords(const Model& model) {
  const char* name = InfoOf(model.accumulator).name;
  std::string words;
  switch (model.chain) {
    case Chain::kAnyOrder: return "";
    case Chain::kInOrder: words = fmt::format("sums in {}, in order", name); break;
    case Chain::kPairs:
      words = fmt::format("sums in {}, of every two the second first", name);
      break;
    case Chain::kLanes:
      words = fmt::format("sums in {}, in {} lanes that are added {}", name, model.width,
                          WordsOf(model.lanes_join));
      break;
    case Chain::kPairwise:
      words = fmt::format("sums in {}, pairwise", name);
      if (model.width > 1) words += fmt::format(" down to {} terms", model.width);
      break;
    case Chain::kMatrixUnit:
      return fmt::format(
          "as matrix units sum: {} products at a time, aligned to the largest and cut off {} below "
          "float32's last bit",
          model.width,
          model.extra_bits == 0   ? "right"
          : model.extra_bits == 1 ? "1 bit"
                                  : fmt::format("{} bits", model.extra_bits));
  }
  if (model.fused) words += ", with fused multiply-adds";
  if (model.flushes) words += ", subnormal numbers flushed to zero";
  return words;
}

std::string OrderInWords(const Sequence& sequence, bool is_filter_gradient) {
  const LoopOrder& order = sequence.order;
  std::string words;
  if (order.channel_block > 0) {
    words = fmt::format("over blocks of {} channels, then taps", order.channel_block);
  } else if (order.axes != LoopOrder().axes) {
    constexpr const char* kPixels[] = {"images", "rows", "columns"};
    constexpr const char* kTaps[] = {"tap rows", "tap columns", "channels"};
    const auto* names = is_filter_gradient ? kPixels : kTaps;
    words = fmt::format("over {}, then {}, then {}", names[order.axes[0]], names[order.axes[1]],
                        names[order.axes[2]]);
  }
  const auto add = [&words](bool is_so, const char* clause) {
    if (is_so) words += (words.empty() ? "" : ", ") + std::string(clause);
  };
  add(order.taps_backwards, "the last tap first");
  add(sequence.reversed, "from the last term to the first");
  add(sequence.with_padding, "padding counted as terms");
  return words;
}

}  // namespace

const ModelKind& KindOf(const Model& model, DType dtype) {
  const bool has_partials = model.split != Split::kNone;
  if (has_partials && (IsNarrower(model.partial, dtype) || IsNarrower(model.total, dtype))) {
    return IsNarrower(model.accumulator, dtype) ? kNarrowSums : kPartialsRounded;
  }
  if (IsNarrower(model.accumulator, dtype)) return kNarrowSums;
  if (InfoOf(model.sequence.operands).fraction_bits < 52) return kOperandsRounded;
  if (model.chain == Chain::kMatrixUnit) return kTruncatedSums;
  return model.flushes ? kFlushed : kOrder;
}

std::string Describe(const Model& model, bool is_filter_gradient) {
  std::string words;
  const auto add = [&words](const std::string& clause) {
    if (!clause.empty()) words += (words.empty() ? "" : "; ") + clause;
  };
  if (model.sequence.operands != Format::kFloat64) {
    add(fmt::format("operands rounded to {}", InfoOf(model.sequence.operands).name));
  }
  if (model.split != Split::kNone) {
    const char* partial = InfoOf(model.partial).name;
    const char* total = InfoOf(model.total).name;
    std::string partials =
        fmt::format("{} in {}, ", PartialsInWords(model, is_filter_gradient), partial);
    if (model.total != model.partial) partials += fmt::format("added in {}, ", total);
    add(partials + WordsOf(model.join));
  }
  add(ChainInWords(model));
  add(OrderInWords(model.sequence, is_filter_gradient));
  return words;
}

}  // namespace convgrad
