// The exact sums of a filter gradient over some of its images, not rounded: what can be cut,
// computed anywhere and added in any order. The operands are cut into slices (slices.h) whose
// products the kernels of float64 sum without rounding, some images at a time; what slices leave is
// added term by term. Must not know files.
#pragma once

#include <cstdint>
#include <optional>

#include "conv/plan/algorithm.h"
#include "order/fixed_point.h"

namespace convgrad {

class ExactSums {
 public:
  // Plans; allocates nothing. Of a filter gradient. Where `max_bytes` (0: no limit) are little,
  // fewer images are taken at once, so that the scratch leaves room for the sums.
  ExactSums(const Problem& problem, const KernelTable& kernels, int num_threads,
            int64_t max_bytes = 0);

  // Images that are best given together.
  int64_t ImagesAtOnce() const { return images_at_once_; }
  // Besides the sums, at most.
  int64_t ScratchBytes() const;
  std::string Tiles() const;

  // Starts from zeros. The sums may take `max_bytes` (0: no limit), "memory/limit" is thrown when
  // they need more.
  void Begin(int64_t max_bytes = 0);
  // Adds the terms of the next images: as many as the problem's batch in all, up to ImagesAtOnce()
  // a call. The operands are those of the images alone.
  void Add(const void* input, const void* out_backprop, int64_t images, const Parallel& parallel);

  // After Begin().
  FixedPointSums& sums() { return *sums_; }

 private:
  // Some images as a problem of float64.
  struct Slab {
    Problem problem;
    Planned planned;
  };
  Slab MakeSlab(int64_t images) const;
  const Slab& SlabOf(int64_t images);
  template <class Stored>
  void AddStored(const Stored* input, const Stored* out_backprop, const Slab& slab,
                 const Parallel& parallel);

  const Problem problem_;
  const KernelTable& kernels_;
  const int num_threads_;
  const int64_t images_at_once_;
  std::optional<Slab> whole_, last_;
  std::optional<FixedPointSums> sums_;
  int64_t num_terms_ = 0;  // of an element, at most, so far
};

}  // namespace convgrad
