#include "verify/compare/other_type.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/checked.h"
#include "verify/truth/rounded.h"

namespace convgrad {
namespace {

// Runs body(begin, end) over pieces of the elements on all threads.
template <class Body>
void ForPieces(int64_t num_elements, const Parallel& parallel, const Body& body) {
  constexpr int64_t kPiece = 1 << 16;
  parallel.For(CeilDiv(num_elements, kPiece), [&](int64_t piece) {
    body(piece * kPiece, std::min(num_elements, (piece + 1) * kPiece));
  });
}

template <class Narrower, class Stored>
bool AreNumbersOf(const Stored* values, int64_t begin, int64_t end) {
  return std::all_of(values + begin, values + end, [](Stored stored) {
    const double value = Widen(stored);
    return std::isnan(value) || Widen(Narrow<Narrower>(value)) == value;
  });
}

bool HasNumbersOf(const Tensor& tensor, DType narrower, const Parallel& parallel) {
  std::atomic<bool> has_all = true;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    const auto* values = tensor.data<typename decltype(tag)::Type>();
    VisitFloat(narrower, [&](auto narrow) {
      ForPieces(tensor.num_elements(), parallel, [&](int64_t begin, int64_t end) {
        if (!has_all) return;
        using Narrower = typename decltype(narrow)::Type;
        if (!AreNumbersOf<Narrower>(values, begin, end)) has_all = false;
      });
    });
  });
  return has_all;
}

}  // namespace

DType TypeOfNumbers(const Tensor& tensor, DType computed, const Parallel& parallel) {
  const int bits = InfoOf(tensor.dtype()).fraction_bits;
  for (const DType narrower : {computed, DType::kFloat32}) {
    if (InfoOf(narrower).fraction_bits >= bits) continue;
    if (HasNumbersOf(tensor, narrower, parallel)) return narrower;
  }
  return tensor.dtype();
}

Tensor ConvertTo(const Tensor& tensor, DType dtype, const Parallel& parallel) {
  Tensor converted(dtype, tensor.shape());
  VisitFloat(tensor.dtype(), [&](auto tag) {
    const auto* from = tensor.data<typename decltype(tag)::Type>();
    VisitFloat(dtype, [&](auto target) {
      using Stored = typename decltype(target)::Type;
      Stored* to = converted.mutable_data<Stored>();
      ForPieces(tensor.num_elements(), parallel, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = Narrow<Stored>(Widen(from[i]));
      });
    });
  });
  return converted;
}

Tensor RoundedThrough(const FloatFormat& format, const Tensor& tensor, const Parallel& parallel) {
  Tensor rounded(tensor.dtype(), tensor.shape());
  VisitFloat(tensor.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* from = tensor.data<Stored>();
    Stored* to = rounded.mutable_data<Stored>();
    ForPieces(tensor.num_elements(), parallel, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = Narrow<Stored>(format.Rounded(Widen(from[i])));
    });
  });
  return rounded;
}

DType CoarserOf(DType a, DType b) {
  return InfoOf(a).fraction_bits < InfoOf(b).fraction_bits ? a : b;
}

double ValueAt(const Tensor& tensor, int64_t element) {
  return VisitFloat(tensor.dtype(), [&](auto tag) {
    return Widen(tensor.data<typename decltype(tag)::Type>()[element]);
  });
}

Tensor RoundedTo(DType dtype, const Oracle& oracle, const Shape& shape) {
  Tensor rounded(dtype, shape);
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* to = rounded.mutable_data<Stored>();
    oracle.ForEachPiece([&](int64_t begin, std::span<const Truth> truths) {
      for (const Truth& truth : truths) to[begin++] = Narrow<Stored>(RoundedTo(truth, dtype));
    });
  });
  return rounded;
}

}  // namespace convgrad
