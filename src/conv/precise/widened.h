// Sums in double of float32 and 16-bit operands: the standard algorithms of float64 on widened
// copies, some images at a time. Products are exact there, and nothing is rounded to the stored
// type before the end. Must not know how a convolution is computed.
#pragma once

#include <optional>

#include "conv/plan/algorithm.h"

namespace convgrad {

bool TakesWidened(const Problem& problem);  // by its type

// The use of the sums in double.
enum class WidenedSums {
  // Precision `double`: the sum, rounded to the stored type. Filter gradients add up the sums of
  // slabs of images, cut by sizes alone, with compensation.
  kRounded,
  // The same bits, from the algorithm "reference" of float64.
  kReference,
  // Precision `exact`: the same sums, and those of the operands' absolute values, S. Where every
  // number that is no further away than double's rounding errors may have taken the sum rounds to
  // one and the same, that is the result; else the element is summed up exactly, term by term. The
  // bound is (min(K, 256) + 8) * 2^-53 * S: a term passes through the chain of its block, which has
  // at most 256 (order/canonical_order.h); blocks and slabs are added up with compensation, for
  // which the 8 are plenty.
  kCertified,
};

class WidenedPlan : public Plan {
 public:
  WidenedPlan(const Problem& problem, const KernelTable& kernels, int num_threads,
              WidenedSums sums);

  int64_t ScratchBytes() const override;
  std::string Tiles() const override;  // "planes in float64, 64 of 128 images at a time"
  bool Run(const ConvArgs& args) const override;

  // Some images, widened: a float64 problem of its own, and how it is computed.
  struct Slab {
    Problem problem;
    Planned planned;
  };
  const Slab& SlabAt(int64_t index) const {
    return last_ && index == num_slabs() - 1 ? *last_ : whole_;
  }
  int64_t FirstImageOf(int64_t slab) const { return slab * whole_.problem.geometry.batch; }
  int64_t num_slabs() const;
  // Filter gradients: slab by slab into totals.
  bool IsFolded() const;
  bool IsCertified() const { return sums_ == WidenedSums::kCertified; }

 private:
  const Problem problem_;
  const WidenedSums sums_;
  const Slab whole_;
  const std::optional<Slab> last_;  // where it has fewer images
};

}  // namespace convgrad
