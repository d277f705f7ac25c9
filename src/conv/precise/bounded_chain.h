// Single elements in twice double's precision, with the bound of compensated_engine.h: what
// settles most of those that a coarser bound leaves in doubt.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "order/compensated_chain.h"
#include "order/rounding.h"

namespace convgrad {

// A visitor of TermWalk.
template <class Stored>
class BoundedChain {
 public:
  BoundedChain(const Stored* first, const Stored* second) : first_(first), second_(second) {}

  void Term(int64_t first, int64_t second) {
    const double x = Widen(first_[first]), y = Widen(second_[second]), product = x * y;
    if constexpr (std::is_same_v<Stored, double>) {
      sum_.Add(product, std::fma(x, y, -product));
    } else {
      num_losses_ += sum_.Add(product, 0) != 0;  // the product is exact
    }
    size_ += std::fabs(product);
    ++terms_;
  }
  void EndBlock() {}
  void EndRun() {}

  // None where even that leaves a doubt.
  std::optional<Stored> Result() const {
    // Sums of 16-bit numbers often end in ties: one loss is all that low has.
    constexpr bool kAreProductsExact = !std::is_same_v<Stored, double>;
    if (kAreProductsExact && num_losses_ <= 1 && std::isfinite(size_)) {
      return RoundCertified<Stored>(sum_.high(), sum_.low(), 0);
    }
    const double terms = static_cast<double>(terms_ + 4), relative = terms * 0x1p-53;
    // Products of float64 may underflow.
    const double bound = 2 * relative * relative * size_ + terms * 0x1p-1074;
    return RoundCertified<Stored>(sum_.high(), sum_.low(), bound);
  }

 private:
  const Stored* first_;
  const Stored* second_;
  CompensatedSum sum_;
  double size_ = 0;
  int64_t terms_ = 0, num_losses_ = 0;
};

}  // namespace convgrad
