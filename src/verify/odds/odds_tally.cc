#include "verify/odds/odds_tally.h"

#include <algorithm>

namespace convgrad {
namespace {

// A square counts at most 2^14, beyond the odds that can be asked for: 2^39 elements' sum fits.
constexpr double kMostSquare = 0x1p14, kSteps = 0x1p10;

uint64_t InSteps(double sizes) {
  return static_cast<uint64_t>(std::min(kMostSquare, sizes * sizes) * kSteps);
}

bool IsBefore(const Largest::Entry& a, const Largest::Entry& b) {
  return a.value != b.value ? a.value > b.value : a.element < b.element;
}

}  // namespace

void Largest::Offer(double value, int64_t element) {
  entries_.push_back({value, element});
  if (entries_.size() >= 2 * kMost) Trim();
}

void Largest::Trim() {
  if (entries_.size() <= kMost) return;
  std::nth_element(entries_.begin(), entries_.begin() + kMost, entries_.end(), IsBefore);
  entries_.resize(kMost);
}

void Largest::Join(const Largest& other) {
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
  Trim();
}

std::vector<Largest::Entry> Largest::Sorted() const {
  std::vector<Entry> sorted = entries_;
  std::sort(sorted.begin(), sorted.end(), IsBefore);
  if (sorted.size() > kMost) sorted.resize(kMost);
  return sorted;
}

void OddsTally::Add(const Deviation& deviation, int64_t element) {
  ++count_;
  const double in_usual = deviation.InUsual();
  if (in_usual == 0) return;
  const double in_any = deviation.InAny();
  usual_squares_ += InSteps(in_usual);
  any_squares_ += InSteps(in_any);
  if (in_usual < 1) return;  // the odds of one such element say nothing
  in_usual_.Offer(in_usual, element);
  in_any_.Offer(in_any, element);
}

void OddsTally::Join(const OddsTally& other) {
  count_ += other.count_;
  usual_squares_ += other.usual_squares_;
  any_squares_ += other.any_squares_;
  in_usual_.Join(other.in_usual_);
  in_any_.Join(other.in_any_);
}

double OddsTally::Mean(uint64_t squares) const {
  if (count_ == 0) return 0;
  return static_cast<double>(squares) / kSteps / static_cast<double>(count_);
}

}  // namespace convgrad
