// A tensor's numbers cut into slices: integers of a few bits each, so that sums of their products
// are exact in double, in any order, and any kernel of float64 may compute them (K. Ozaki, T.
// Ogita, S. Oishi and S. M. Rump, "Error-free transformations of matrix multiplication by using
// fast routines of matrix multiplication and its applications", Numerical Algorithms 59 (2012)).
// All numbers are cut at the same places, counted from the largest; what a number has below the
// last is its rest. Must not know convolutions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "base/parallel.h"
#include "tensor/dtype.h"

namespace convgrad {

// More would cost more products than a sum term by term does.
inline constexpr int kMostSlices = 6;

// Which bits a tensor's finite numbers have: how many numbers end (have their last bit) where.
class BitProfile {
 public:
  template <class Stored>
  BitProfile(const Stored* numbers, int64_t count, const Parallel& parallel);

  // All finite numbers are smaller than 2^top().
  int top() const { return top_; }
  // All are multiples of 2^unit().
  int unit() const { return unit_; }
  bool HasNumbers() const { return num_finite_ > 0; }  // finite ones but zeros
  bool HasSpecial() const { return num_special_ > 0; }
  int64_t count() const { return count_; }
  // How many numbers are no multiples of 2^bit.
  int64_t EndBelow(int bit) const {
    return below_[static_cast<size_t>(std::clamp(bit - kLeast, 0, kExponents))];
  }

 private:
  static constexpr int kLeast = -1074;
  static constexpr int kExponents = 1074 + 1024;

  std::array<int64_t, kExponents + 1> below_{};
  int64_t count_, num_finite_ = 0, num_special_ = 0;
  int top_ = 0, unit_ = 0;
};

// How a tensor is cut: slice k, from 0, has the integers of 2^BitOf(k), none beyond 2^(bits-1).
struct Cuts {
  int slices = 0;
  int bits = 2;
  int top = 0;  // of the numbers

  int BitOf(int slice) const { return top + 1 - (slice + 1) * bits; }
  int LastBit() const { return BitOf(slices - 1); }
};

// Cuts numbers, one at a time.
class Slicer {
 public:
  explicit Slicer(const Cuts& cuts);

  // Writes the number's integers, and returns its rest: the number is their sum and the rest. All
  // of an infinite or NaN number is rest.
  double Cut(double number, double* integers) const;
  double Rest(double number) const {
    double integers[kMostSlices];
    return Cut(number, integers);
  }

 private:
  const int slices_;
  double least_;               // numbers below are all rest
  double down_[2], up_[2];     // by both, a number in units of the last bit, and back
  double steps_[kMostSlices];  // units of slice k in such
  double inverse_[kMostSlices];
};

struct Leftover {
  int64_t at;  // in the tensor
  double rest;
};

// A tensor cut: its slices, and the rests that are not zero.
class Slices {
 public:
  template <class Stored>
  Slices(const Stored* numbers, int64_t count, const Cuts& cuts, const Parallel& parallel);

  const Cuts& cuts() const { return cuts_; }
  const double* Slice(int slice) const { return integers_.data() + slice * count_; }
  const std::vector<Leftover>& leftovers() const { return leftovers_; }

 private:
  Cuts cuts_;
  int64_t count_;
  AlignedArray<double> integers_;
  std::vector<Leftover> leftovers_;
};

}  // namespace convgrad
