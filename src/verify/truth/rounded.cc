#include "verify/truth/rounded.h"

#include <cmath>

#include "order/rounding.h"

namespace convgrad {
double RoundedTo(const Truth& truth, DType dtype) {
  if (dtype == DType::kFloat64) return std::ldexp(truth.high, truth.exponent);
  const double odd = std::ldexp(RoundToOdd(truth.high, truth.low), truth.exponent);
  return VisitFloat(dtype,
                    [&](auto tag) { return Widen(Narrow<typename decltype(tag)::Type>(odd)); });
}

}  // namespace convgrad
