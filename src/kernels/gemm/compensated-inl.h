// Compensated sums of products; see compensated.h. Included once per target.
//
// Algorithm Dot2 of T. Ogita, S. M. Rump and S. Oishi, "Accurate sum and dot product", SIAM J. Sci.
// Comput. 26 (2005): a product and its error by a fused multiply-add, Knuth's TwoSum, the errors
// added up beside. Beside that the sums that say how far it may be off. A term takes 13 operations
// of a vector, and none of them waits for another term but one addition, so that even a single
// chain keeps the units busy.
#if defined(CONVGRAD_KERNELS_COMPENSATED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CONVGRAD_KERNELS_COMPENSATED_INL_H_
#undef CONVGRAD_KERNELS_COMPENSATED_INL_H_
#else
#define CONVGRAD_KERNELS_COMPENSATED_INL_H_
#endif

#include "kernels/kernel_table.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace convgrad {
namespace HWY_NAMESPACE {

using CompensatedTag = hn::ScalableTag<double>;

// The sums of some factors with one vector of lanes, in registers: four for each factor.
template <int kFactors>
class CompensatedTile {
 public:
  using D = CompensatedTag;
  using V = hn::Vec<D>;

  // `at`: of the first factor's first lane.
  static void Add(const CompensatedTerms& terms, const double* factors, const double* lanes,
                  const CompensatedSums& sums, int64_t at) {
    const D d;
    V high[kFactors], low[kFactors], magnitude[kFactors], squares[kFactors];
#pragma GCC unroll 8
    for (int i = 0; i < kFactors; ++i) {
      high[i] = hn::LoadU(d, sums.high + at + i * sums.stride);
      low[i] = hn::LoadU(d, sums.low + at + i * sums.stride);
      magnitude[i] = hn::LoadU(d, sums.magnitude + at + i * sums.stride);
      squares[i] = hn::LoadU(d, sums.squares + at + i * sums.stride);
    }
    for (int64_t k = terms.num_terms; k > 0; --k) {
      const V y = hn::LoadU(d, lanes);
#pragma GCC unroll 8
      for (int i = 0; i < kFactors; ++i) {
        const V x = hn::Set(d, factors[i]);
        const V product = hn::Mul(x, y);
        const V product_error = Fma(x, y, hn::Neg(product));
        V lost;
        high[i] = TwoSum(high[i], product, lost);
        low[i] = hn::Add(low[i], hn::Add(lost, product_error));
        magnitude[i] = hn::Add(magnitude[i], hn::Abs(product));
        squares[i] = Fma(product, product, squares[i]);
      }
      lanes += hn::Lanes(d);
      factors += terms.factor_stride;
    }
#pragma GCC unroll 8
    for (int i = 0; i < kFactors; ++i) {
      hn::StoreU(high[i], d, sums.high + at + i * sums.stride);
      hn::StoreU(low[i], d, sums.low + at + i * sums.stride);
      hn::StoreU(magnitude[i], d, sums.magnitude + at + i * sums.stride);
      hn::StoreU(squares[i], d, sums.squares + at + i * sums.stride);
    }
  }
};

inline void AddCompensatedTerms(const CompensatedTerms& terms, const CompensatedSums& sums) {
  constexpr int kFactors = kManyRegisters ? 4 : 2;
  const auto width = static_cast<int64_t>(hn::Lanes(CompensatedTag()));
  for (int64_t j = 0; j < terms.num_lanes; j += width) {
    const double* lanes = terms.lanes + j * terms.panel_terms;
    int64_t i = 0;
    for (; i + kFactors <= terms.num_factors; i += kFactors) {
      CompensatedTile<kFactors>::Add(terms, terms.factors + i, lanes, sums, i * sums.stride + j);
    }
    for (; i < terms.num_factors; ++i) {
      CompensatedTile<1>::Add(terms, terms.factors + i, lanes, sums, i * sums.stride + j);
    }
  }
}

inline void FillCompensated(KernelTable& table) {
  table.compensated = {static_cast<int>(hn::Lanes(CompensatedTag())), AddCompensatedTerms};
}

}  // namespace HWY_NAMESPACE
}  // namespace convgrad
HWY_AFTER_NAMESPACE();

#endif  // toggle
