#include "verify/compare/error_sink.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace convgrad {

double ModelUlps(const Truth& truth, const Arithmetic& arithmetic) {
  if (arithmetic.summation != Summation::kRounded || !std::isfinite(truth.high)) return 0;
  const DTypeInfo& stored = InfoOf(arithmetic.stored);
  const double roundoff = arithmetic.accumulator.unit_roundoff();
  const auto chain = static_cast<double>(std::min(truth.terms, arithmetic.longest_chain));
  const double size = std::fabs(truth.high);
  const int exponent =
      std::max(1 - stored.max_exponent, size == 0 ? -2000 : std::ilogb(size) + truth.exponent);
  return std::ldexp(std::sqrt(chain) * roundoff * std::max(truth.norm, size),
                    truth.exponent - exponent + stored.fraction_bits);
}

ErrorSink::ErrorSink(const Shape& shape, bool keep, bool profile, bool model)
    : keeps_errors_(keep) {
  if (keep || profile) errors_.emplace(DType::kFloat32, shape);
  if (profile) ulps_.resize(static_cast<size_t>(errors_->num_elements()));
  if (profile && model) model_.resize(ulps_.size());
}

void ErrorSink::Keep(int64_t element, double error, const Distance& distance, bool is_below) {
  if (!errors_) return;
  errors_->mutable_data<float>()[element] = static_cast<float>(error);
  if (ulps_.empty()) return;
  const double ulps = distance.nan_mismatch ? std::numeric_limits<double>::infinity()
                                            : static_cast<double>(distance.ulp);
  ulps_[static_cast<size_t>(element)] = static_cast<float>(is_below ? -ulps : ulps);
}

void ErrorSink::KeepModel(int64_t element, double ulps) {
  model_[static_cast<size_t>(element)] = static_cast<float>(ulps);
}

std::optional<Tensor> ErrorSink::TakeErrors() {
  return keeps_errors_ ? std::move(errors_) : std::nullopt;
}

std::optional<ErrorProfile> ErrorSink::Profile(const Layout& layout, const char* measure,
                                               double limit) const {
  if (ulps_.empty()) return std::nullopt;
  const std::span<const float> errors(errors_->data<float>(), ulps_.size());
  ErrorProfile profile = ProfileOf({errors, ulps_, model_}, layout);
  profile.measure = measure;
  profile.limit = limit;
  return profile;
}

}  // namespace convgrad
