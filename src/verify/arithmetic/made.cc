#include "verify/arithmetic/made.h"

#include <algorithm>
#include <cmath>

namespace convgrad {

MadeNumbers::MadeNumbers(const Tensor& tensor)
    : tensor_(tensor), format_(StoredFormat(tensor.dtype())) {
  if (InfoOf(tensor.dtype()).bytes == 2) return;
  if (AllAre<BFloat16>()) {
    format_ = Format::kBFloat16;
  } else if (AllAre<Float16>()) {
    format_ = Format::kFloat16;
  } else if (AllAre<float>()) {
    format_ = Format::kFloat32;
  }
}

template <class Stored>
bool MadeNumbers::AllAre() const {
  for (int64_t i = 0; i < size(); ++i) {
    const double value = At(i);
    if (!std::isnan(value) && Widen(Narrow<Stored>(value)) != value) return false;
  }
  return true;
}

double MadeNumbers::At(int64_t element) const {
  return VisitFloat(tensor_.dtype(), [&](auto tag) {
    return Widen(tensor_.data<typename decltype(tag)::Type>()[element]);
  });
}

bool MadeNumbers::Is(double sum, double value) const {
  const double stored = Round(format_, sum);
  return stored == value || (std::isnan(stored) && std::isnan(value));
}

double MadeNumbers::Surprise(double value, double exact) const {
  constexpr double kMost = 12;
  if (!std::isfinite(value) || !std::isfinite(exact) || Is(exact, value)) return 0;
  const double unit = InfoOf(format_).Ulp(std::max(std::fabs(value), std::fabs(exact)));
  const double units = std::round(std::fabs(value - exact) / unit);
  return std::min(kMost, std::log2(2 * std::max(1.0, units) + 1));
}

}  // namespace convgrad
