#include "verify/arithmetic/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "verify/arithmetic/chain.h"

namespace convgrad {
namespace {

// So many numbers may a model give for one element; more say nothing.
constexpr size_t kMostResults = 16;

void AddOnce(std::vector<double>& numbers, double number) {
  if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
    numbers.push_back(number);
  }
}

}  // namespace

// Terms that are dealt to partial sums, laid side by side.
void Evaluation::Deal(const Model& model) {
  const int64_t n = terms_.size(), cycle = model.parts * model.run;
  dealt_x_.clear();
  dealt_y_.clear();
  ranges_.clear();
  for (int64_t part = 0; part < model.parts; ++part) {
    const auto begin = static_cast<int64_t>(dealt_x_.size());
    for (int64_t at = part * model.run; at < n; at += cycle) {
      const int64_t end = std::min(n, at + model.run);
      dealt_x_.insert(dealt_x_.end(), terms_.x.begin() + at, terms_.x.begin() + end);
      dealt_y_.insert(dealt_y_.end(), terms_.y.begin() + at, terms_.y.begin() + end);
    }
    ranges_.push_back({begin, static_cast<int64_t>(dealt_x_.size())});
  }
  x_ = dealt_x_.data();
  y_ = dealt_y_.data();
}

void Evaluation::Divide(const Model& model) {
  if (model.split == Split::kInterleaved) return Deal(model);
  const int64_t n = terms_.size();
  x_ = terms_.x.data();
  y_ = terms_.y.data();
  ranges_.clear();
  const auto by_length = [&](int64_t length) {
    for (int64_t at = 0; at < n; at += length) ranges_.push_back({at, std::min(n, at + length)});
  };
  const auto by_begins = [&](const std::vector<int64_t>& begins) {
    for (size_t i = 0; i < begins.size(); ++i) {
      ranges_.push_back({begins[i], i + 1 < begins.size() ? begins[i + 1] : n});
    }
  };
  switch (model.split) {
    case Split::kNone: ranges_.push_back({0, n}); break;
    case Split::kPieces: by_length(std::max<int64_t>(1, CeilDiv(n, model.parts))); break;
    case Split::kTiles: by_length(model.parts); break;
    case Split::kBalanced:
      for (int64_t i = 0; i < model.parts; ++i) {
        ranges_.push_back(ShareOf(n, model.parts, i));
      }
      break;
    case Split::kOuter: by_begins(terms_.outer); break;
    case Split::kOuterTwo: by_begins(terms_.outer_two); break;
    case Split::kInterleaved: break;
  }
}

void Evaluation::AddPrefixes(const double* x, const double* y) {
  const auto n = static_cast<size_t>(terms_.size());
  sums_.resize(n + 1);
  squares_.resize(n + 1);
  double sum = 0, square = 0;
  for (size_t i = 0; i < n; ++i) {
    const double product = x[i] * y[i];
    sums_[i + 1] = sum += product;
    squares_[i + 1] = square += product * product;
  }
}

std::pair<double, double> Evaluation::OpenSum(const Range& range, Format accumulator) const {
  const auto begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
  const double sum = sums_[end] - sums_[begin];
  const double norm = std::sqrt(std::max(0.0, squares_[end] - squares_[begin]));
  const double roundings = std::sqrt(static_cast<double>(end - begin));
  const double unit = accumulator == Format::kFloat64 ? 0x1p-53 : 0x1p-24;
  // Second, what the difference of two prefixes may itself be off.
  return {sum, 3 * unit * roundings * std::max(std::fabs(sum), norm) +
                   8 * 0x1p-53 * std::max(std::fabs(sums_[begin]), std::fabs(sums_[end]))};
}

// Both ends of each partial sum's interval, and which of them differ once they are rounded.
void Evaluation::RoundOpenParts(const Model& model) {
  lower_.clear();
  upper_.clear();
  open_.clear();
  const bool stays_open = model.partial == model.accumulator;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const auto [sum, slack] = OpenSum(ranges_[i], model.accumulator);
    lower_.push_back(stays_open ? sum - slack : Round(model.partial, sum - slack));
    upper_.push_back(stays_open ? sum + slack : Round(model.partial, sum + slack));
    if (lower_.back() != upper_.back()) open_.push_back(i);
  }
}

// Added one after the other, all totals that are possible so far at once.
void Evaluation::JoinOpenInOrder(const Model& model) {
  results_.assign(1, 0.0);
  for (size_t i = 0; i < lower_.size(); ++i) {
    const size_t at = model.join == Join::kReversed ? lower_.size() - 1 - i : i;
    if (results_.size() == 1) {
      const double low = Round(model.total, results_[0] + lower_[at]);
      const double high = Round(model.total, results_[0] + upper_[at]);
      results_[0] = low;
      if (high != low) results_.push_back(high);
      continue;
    }
    next_.clear();
    for (const double partial : {lower_[at], upper_[at]}) {
      for (const double total : results_) AddOnce(next_, Round(model.total, total + partial));
    }
    results_.swap(next_);
    if (results_.size() > kMostResults) return results_.clear();
  }
}

void Evaluation::JoinOpen(const Model& model) {
  if (open_.empty()) {
    joined_ = lower_;
    results_.assign(1, JoinSums(joined_, model.join, model.total));
    return;
  }
  if (model.join == Join::kInOrder || model.join == Join::kReversed) return JoinOpenInOrder(model);
  constexpr size_t kMostOpen = 4;
  results_.clear();
  if (open_.size() > kMostOpen) return;
  for (size_t choice = 0; choice < size_t{1} << open_.size(); ++choice) {
    joined_ = lower_;
    for (size_t i = 0; i < open_.size(); ++i) {
      if ((choice >> i & 1) != 0) joined_[open_[i]] = upper_[open_[i]];
    }
    AddOnce(results_, JoinSums(joined_, model.join, model.total));
  }
}

void Evaluation::SumParts(const Model& model) {
  partials_.clear();
  for (const Range& range : ranges_) {
    const double sum = ChainSum(model, x_ + range.begin, y_ + range.begin, range.end - range.begin);
    partials_.push_back(model.split == Split::kNone ? sum : Round(model.partial, sum));
  }
}

std::span<const double> Evaluation::Of(const Model& model) {
  const bool is_open = model.chain == Chain::kAnyOrder;
  const bool is_divided = last_ && last_->DividesLike(model);
  const bool is_summed = is_divided && last_->SumsPartsLike(model);
  if (!is_divided) Divide(model);
  last_ = model;
  if (is_open) {
    const bool are_dealt = model.split == Split::kInterleaved;
    if (!is_divided && (are_dealt || !prefixes_are_plain_)) {
      AddPrefixes(x_, y_);
      prefixes_are_plain_ = !are_dealt;
    }
    if (!is_summed) RoundOpenParts(model);
    JoinOpen(model);
    return results_;
  }
  if (!is_summed) SumParts(model);
  joined_ = partials_;
  results_.assign(1, model.split == Split::kNone ? partials_.front()
                                                 : JoinSums(joined_, model.join, model.total));
  return results_;
}

}  // namespace convgrad
