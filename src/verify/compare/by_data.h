// The comparison by the data, element by element: exact class, or the bound that follows from the
// element's own terms; then what odds the whole has.
#pragma once

#include "base/parallel.h"
#include "tensor/tensor.h"
#include "verify/compare/compare.h"
#include "verify/compare/error_sink.h"
#include "verify/compare/tally.h"
#include "verify/odds/odds.h"
#include "verify/truth/oracle.h"

namespace convgrad {

// The tensors to compare. `golden` may be null: then the exact values, rounded, are expected, and
// `actual` is judged as this program's own or, if `is_foreign`, as anyone's. Anyone's is judged by
// the type that it is of, which may be another than the problem's.
struct DataQuestion {
  const Problem& problem;
  const Tensor& first;
  const Tensor& second;
  const Tensor& actual;
  const Tensor* golden;
  bool is_foreign;

  // Anyone's, if there is one.
  const Tensor* foreign() const {
    return golden != nullptr ? golden : is_foreign ? &actual : nullptr;
  }
  DType foreign_type() const { return golden != nullptr ? golden->dtype() : actual.dtype(); }
};

// The format in which someone's tensor was summed, as far as is known: float32 unless told
// otherwise, of float64 numbers float64. A 16-bit type is no exception, though some kernels sum in
// it.
Accumulator AccumulatorOf(const Problem& problem, DType stored, const CompareOptions& options);

// `errors` takes each element's error as a share of its bound.
Tally TallyByData(const DataQuestion& question, const Oracle& oracle, const CompareOptions& options,
                  ErrorSink& errors);

// The verdict that the odds add; PASSED where there is nothing of anyone's.
OddsVerdict OddsByData(const DataQuestion& question, const Oracle& oracle, const Tally& tally,
                       const CompareOptions& options, const Parallel& parallel);

}  // namespace convgrad
