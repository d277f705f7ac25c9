#include "verify/truth/normal_quantile.h"

#include <cmath>

namespace convgrad {
namespace {

// Coefficients from the highest power down.
constexpr double kCentreTop[] = {
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
    13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080};
constexpr double kCentreBottom[] = {
    5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
    5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0};
constexpr double kTailTop[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                               2.41780725177450611770e-1, 1.27045825245236838258,
                               3.64784832476320460504,    5.76949722146069140550,
                               4.63033784615654529590,    1.42343711074968357734};
constexpr double kTailBottom[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                  1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                  6.89767334985100004550e-1, 1.67638483018380384940,
                                  2.05319162663775882187,    1.0};

double Polynomial(std::span<const double> coefficients, double x) {
  double sum = 0;
  for (const double coefficient : coefficients) sum = sum * x + coefficient;
  return sum;
}

// ln(x) for a normal x > 0, from ln(m * 2^e) = e ln 2 + 2 artanh((m - 1) / (m + 1)) and the series
// of artanh, which 11 terms carry to double precision for m in [sqrt(1/2), sqrt(2)).
double Logarithm(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  constexpr double kSqrtHalf = 0.707106781186547524401;
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1), t_squared = t * t;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * t_squared + 1.0 / k;
  return exponent * kLn2 + 2 * t * series;
}

}  // namespace

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kCentreTop, r) / Polynomial(kCentreBottom, r);
  }
  const double r = std::sqrt(-Logarithm(q < 0 ? p : 1 - p)) - 1.6;
  const double x = Polynomial(kTailTop, r) / Polynomial(kTailBottom, r);
  return q < 0 ? -x : x;
}

NormalQuantileCoefficients CoefficientsOfNormalQuantile() {
  return {kCentreTop, kCentreBottom, kTailTop, kTailBottom};
}

}  // namespace convgrad
