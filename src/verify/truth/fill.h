// Generated tensors: `fill:normal` and its kin. Element i depends on the seed, the tensor's role
// and i alone and is computed with exactly rounded operations only, so that every machine, thread
// count and shard sees the same data. Must not know files or the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/parallel.h"
#include "problem/op.h"
#include "tensor/tensor.h"

namespace convgrad {

struct FillSpec {
  // kInteger: -2, -1, 1 or 2, thinned out by zeros from element 2^20 on (fill.cc says how), so that
  //           sums of products stay exact in float32 however long they are.
  // kNormal:  mean 0, standard deviation 1.
  // kUniform: in [low, high].
  // kImpulse: 1 at element `index` (C order), else 0.
  enum class Kind { kInteger, kNormal, kUniform, kZeros, kOnes, kImpulse };
  Kind kind = Kind::kInteger;
  double low = 0, high = 0;
  int64_t index = 0;
  std::optional<Shape> shape;    // after '@'
  std::optional<uint64_t> seed;  // after '#': instead of the case's

  // The text that ParseFill reads back, without "fill:".
  std::string ToString() const;
};

// True if an operand's text asks for a fill rather than a file.
bool IsFill(std::string_view operand);

// "integer", "normal", "uniform:-1:1", "zeros", "ones" or "impulse:7", each with an optional
// "@8,56,56,32" and then an optional "#7"; a leading "fill:" is fine. Throws usage "fill/syntax".
FillSpec ParseFill(std::string_view text);

// The tensor; `shape` and `seed` count, not those of `spec`. Throws usage "fill/range" for an
// impulse outside it or a uniform range that the type does not hold.
Tensor MakeFill(const FillSpec& spec, DType dtype, const Shape& shape, uint64_t seed, Role role,
                const Parallel& parallel);

}  // namespace convgrad
