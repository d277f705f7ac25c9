// A model's sums of the terms of one element.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/range.h"
#include "verify/arithmetic/model.h"
#include "verify/arithmetic/terms.h"

namespace convgrad {

class Evaluation {
 public:
  // The terms are in the sequence of the models to come; they must outlive it.
  explicit Evaluation(const Arranged& terms) : terms_(terms) {}

  // The sums that the model may give, before they are stored: one, but where the order inside
  // partial sums is open a few, and none where too many are possible.
  std::span<const double> Of(const Model& model);

 private:
  void Divide(const Model& model);
  void Deal(const Model& model);
  void AddPrefixes(const double* x, const double* y);
  // A sum over a range and how far float32 may take it.
  std::pair<double, double> OpenSum(const Range& range, Format accumulator) const;
  void SumParts(const Model& model);
  void RoundOpenParts(const Model& model);
  void JoinOpen(const Model& model);
  void JoinOpenInOrder(const Model& model);

  const Arranged& terms_;
  // The terms as they were dealt, or those of `terms_`.
  const double* x_ = nullptr;
  const double* y_ = nullptr;
  std::vector<double> dealt_x_, dealt_y_;
  std::vector<Range> ranges_;
  // Sums of products, and of their squares, up to each term.
  std::vector<double> sums_, squares_;
  bool prefixes_are_plain_ = false;  // not those of dealt terms
  // The model before, whose division and partial sums are still there.
  std::optional<Model> last_;
  std::vector<double> partials_, joined_, results_, next_;
  // Partial sums whose order is open: the ends of their intervals, and those that differ.
  std::vector<double> lower_, upper_;
  std::vector<size_t> open_;
};

}  // namespace convgrad
