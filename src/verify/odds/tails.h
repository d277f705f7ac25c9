// How likely errors of given sizes are at most, as natural logarithms, for errors whose sizes are
// bounds in the sense of Azuma and Hoeffding (sub-Gaussian with parameter 1 after division by their
// size). Each is an upper bound for every distribution of that kind, not an estimate.
#pragma once

namespace convgrad {

// That the worst of `count` errors is `sizes` of its sizes or more, in either direction.
double LogOddsOfWorst(double sizes, double count);

// That the squares of `count` independent errors, each over its size, have this mean or a larger
// one: Chernoff's bound of the chi-square distribution, which holds for sub-Gaussian ones too.
double LogOddsOfSquares(double mean, double count);

// That `count` independent errors, each over its size, have a mean of this magnitude or more.
double LogOddsOfMean(double mean, double count);

}  // namespace convgrad
