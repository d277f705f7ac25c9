// One arithmetic that a kernel may have: in which order it takes the terms of a sum, in what it
// adds them, how it cuts the sum into partial sums, and where it rounds. A value, which prints
// itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "verify/truth/float_format.h"

namespace convgrad {

// The nest of three loops over the terms of a sum, the outermost first. The axes of a filter
// gradient are image, row and column; those of the other two tap row, tap column and channel.
struct LoopOrder {
  std::array<uint8_t, 3> axes = {0, 1, 2};
  bool taps_backwards = false;
  // Channels are cut into blocks of so many: the outermost loop goes over blocks, the innermost
  // over a block's channels. 0: they aren't.
  int64_t channel_block = 0;

  bool operator==(const LoopOrder&) const = default;
};

// Which numbers are multiplied, and in which order.
struct Sequence {
  Format operands = Format::kFloat64;  // to which both are rounded first; float64: as they are
  LoopOrder order;
  bool reversed = false;
  bool with_padding = false;  // a tap on the padding is a term of zero, and takes its place

  bool operator==(const Sequence&) const = default;
};

// How numbers that stand side by side are added up.
enum class Join : uint8_t {
  kInOrder,
  kReversed,
  kNeighbours,  // (0+1)+(2+3), as a tree grows from the leaves
  kHalves,      // the first half to the second, as a tree is cut from the root
};

// How the terms of one partial sum, or of a sum without any, are added.
enum class Chain : uint8_t {
  kAnyOrder,  // in float32 or wider, in an order that does not show
  kInOrder,
  kPairs,       // two at a time, the second first, as vdpbf16ps does
  kLanes,       // `width` chains side by side, joined at the end
  kPairwise,    // a tree over chains of `width` terms
  kMatrixUnit,  // exact products of `width` terms and the sum so far, aligned to the largest and
                // cut
};

enum class Split : uint8_t {
  kNone,
  kPieces,       // `parts` of equal length, the last one shorter
  kBalanced,     // `parts` whose lengths differ by one at most
  kTiles,        // of `parts` terms each
  kInterleaved,  // runs of `run` terms are dealt to `parts` in turn
  kOuter,        // one for each turn of the outermost loop
  kOuterTwo,     // one for each turn of the two outermost
};

struct Model {
  Sequence sequence;
  Chain chain = Chain::kInOrder;
  int width = 1;
  Join lanes_join = Join::kInOrder;
  Format accumulator = Format::kFloat32;
  bool fused = false;    // a product is not rounded before it is added
  bool flushes = false;  // subnormal sums and products to zero
  int extra_bits = 0;    // of a matrix unit: kept below float32's last

  Split split = Split::kNone;
  int64_t parts = 1;
  int64_t run = 1;
  Format partial = Format::kFloat32;  // to which a partial sum is rounded
  Format total = Format::kFloat32;    // in which they are added
  Join join = Join::kInOrder;

  // True if the other cuts the terms into the same partial sums; then, if it sums them alike.
  bool DividesLike(const Model& other) const {
    return split == other.split && parts == other.parts && run == other.run;
  }
  bool SumsPartsLike(const Model& other) const {
    return chain == other.chain && width == other.width && lanes_join == other.lanes_join &&
           accumulator == other.accumulator && fused == other.fused && flushes == other.flushes &&
           extra_bits == other.extra_bits && partial == other.partial;
  }
};

// The kinds of arithmetic that have names of their own.
struct ModelKind {
  const char* name;  // of the hypothesis: "partials-rounded"
  const char* remedy;
  bool is_mistake = true;  // else arithmetic that may be meant: only its precision is another
};
const ModelKind& KindOf(const Model& model, DType dtype);

// "64 partials in bfloat16, in order". `is_filter_gradient` gives the loops their names.
std::string Describe(const Model& model, bool is_filter_gradient);

}  // namespace convgrad
