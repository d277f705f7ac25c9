// Other people's kernels: right results, summed in every order that a kernel might take, each
// operation rounded once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "conv/reference/reference.h"
#include "support/operands.h"
#include "tensor/tensor.h"

namespace convgrad::testing {

// The products of one element, in canonical order.
template <class Stored>
struct Products {
  const Stored* first;
  const Stored* second;
  std::vector<double> x, y;
  void Term(int64_t i, int64_t j) {
    x.push_back(Widen(first[i]));
    y.push_back(Widen(second[j]));
  }
  void EndBlock() {}
  void EndRun() {}
};

enum class Order {
  kSequential,
  kReversed,
  kPairwise,
  kFused,
  kStrided,       // every 7919th term, going round
  kShuffled,      // an order of its own for each number of terms
  kBlocked,       // 16 lanes, each a chain, added pairwise
  kFusedBlocked,  // the same with fused multiply-adds
};
constexpr Order kOrders[] = {Order::kSequential, Order::kReversed,    Order::kPairwise,
                             Order::kFused,      Order::kStrided,     Order::kShuffled,
                             Order::kBlocked,    Order::kFusedBlocked};

template <class Compute>
Compute Pairwise(const std::vector<Compute>& terms, size_t begin, size_t end) {
  if (end - begin == 0) return 0;
  if (end - begin == 1) return terms[begin];
  const size_t middle = (begin + end) / 2;
  return Pairwise(terms, begin, middle) + Pairwise(terms, middle, end);
}

// The terms of a single chain in the order in which it takes them.
inline std::vector<size_t> PlacesIn(size_t n, Order order) {
  std::vector<size_t> places(n);
  std::iota(places.begin(), places.end(), size_t{0});
  if (order == Order::kReversed) std::reverse(places.begin(), places.end());
  if (order == Order::kShuffled) std::shuffle(places.begin(), places.end(), std::mt19937_64(n));
  if (order == Order::kStrided) {
    for (size_t i = 0; i < n; ++i) places[i] = i * 7919 % n;  // a prime, and n is smaller
  }
  return places;
}

// A dot product in `Compute`, each operation rounded once.
template <class Compute>
Compute Sum(const std::vector<double>& x, const std::vector<double>& y, Order order) {
  const size_t n = x.size();
  std::vector<Compute> products(n);
  for (size_t i = 0; i < n; ++i) {
    products[i] = static_cast<Compute>(x[i]) * static_cast<Compute>(y[i]);
  }
  if (order == Order::kPairwise) return Pairwise(products, 0, n);
  if (order == Order::kBlocked || order == Order::kFusedBlocked) {
    std::vector<Compute> lanes(16);
    for (size_t i = 0; i < n; ++i) {
      Compute& lane = lanes[i % 16];
      lane = order == Order::kBlocked
                 ? lane + products[i]
                 : std::fma(static_cast<Compute>(x[i]), static_cast<Compute>(y[i]), lane);
    }
    return Pairwise(lanes, 0, 16);
  }
  Compute sum = 0;
  for (const size_t i : PlacesIn(n, order)) {
    sum = order == Order::kFused
              ? std::fma(static_cast<Compute>(x[i]), static_cast<Compute>(y[i]), sum)
              : sum + products[i];
  }
  return sum;
}

inline Tensor SummedInOrder(const Problem& problem, const Operands& operands, Order order) {
  const TermWalk walk(problem);
  Tensor result(problem.dtype, problem.ResultShape());
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < result.num_elements(); ++i) {
      Products<Stored> products{
          operands.first.data<Stored>(), operands.second.data<Stored>(), {}, {}};
      walk.Visit(i, products);
      result.mutable_data<Stored>()[i] =
          Narrow<Stored>(Sum<ComputeType<Stored>>(products.x, products.y, order));
    }
  });
  return result;
}

}  // namespace convgrad::testing
