#include "verify/odds/tails.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace convgrad {

double LogOddsOfWorst(double sizes, double count) {
  if (count <= 0) return 0;
  return std::min(0.0, std::numbers::ln2 + std::log(count) - sizes * sizes / 2);
}

// E exp(t Z^2) <= (1 - 2t)^(-1/2) for a sub-Gaussian Z of parameter 1, as for a normal one.
double LogOddsOfSquares(double mean, double count) {
  if (count <= 0 || mean <= 1) return 0;
  return -count / 2 * (mean - 1 - std::log(mean));
}

double LogOddsOfMean(double mean, double count) {
  if (count <= 0) return 0;
  return std::min(0.0, std::numbers::ln2 - mean * mean * count / 2);
}

}  // namespace convgrad
