#include "verify/diagnosis/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "verify/diagnosis/hypotheses.h"
#include "verify/diagnosis/trial.h"
#include "verify/diagnosis/unwritten.h"
#include "verify/truth/distance.h"

namespace convgrad {
namespace {

// --- elements to try first ---

// Some positions at which the golden differs from the right result, those that differ most first.
std::vector<int64_t> TellingPositions(const WrongGolden& wrong) {
  constexpr size_t kMost = 128;
  std::vector<std::pair<double, int64_t>> found;
  VisitFloat(wrong.golden.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    const Stored* actual = wrong.actual.data<Stored>();
    const Stored* golden = wrong.golden.data<Stored>();
    int64_t step = 1, seen = 0;
    for (int64_t i = 0; i < wrong.golden.num_elements(); ++i) {
      const Distance distance = DistanceBetween(actual[i], golden[i]);
      if (distance.same_value() || seen++ % step != 0) continue;
      found.emplace_back(distance.absolute, i);
      if (found.size() < kMost) continue;
      for (size_t k = 0; k < kMost / 2; ++k) found[k] = found[2 * k];  // every second one
      found.resize(kMost / 2);
      step *= 2;
    }
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> positions;
  for (const auto& [difference, position] : found) positions.push_back(position);
  return positions;
}

// --- all of them ---

class Search {
 public:
  Search(const WrongGolden& wrong, const Parallel& parallel)
      : wrong_(wrong),
        parallel_(parallel),
        hypotheses_(HypothesesFor(wrong)),
        positions_(TellingPositions(wrong)) {}

  static std::vector<Hypothesis> HypothesesFor(const WrongGolden& wrong) {
    std::vector<Hypothesis> all = UnwrittenParts(wrong.problem, wrong.actual, wrong.golden);
    std::vector<Hypothesis> others = AllHypotheses(wrong.problem);
    std::move(others.begin(), others.end(), std::back_inserter(all));
    return all;
  }

  std::optional<Diagnosis> Run() {
    if (positions_.empty()) return std::nullopt;
    const DType dtype = wrong_.problem.dtype;
    const DType wide = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const DType accumulator = wrong_.accumulator.value_or(wide);
    if (IsRight(accumulator)) return found_;
    Try(accumulator, [](const Alternative&) { return true; });
    if (!found_ && !wrong_.accumulator && InfoOf(dtype).bytes == 2) {
      // Its maker may have summed in the type itself on top of that.
      Try(dtype, [](const Alternative& a) { return a.finish == Finish::kRounded; });
    }
    return found_;
  }

 private:
  // Judged by bits or by someone's tolerance, a golden may differ and be right.
  bool IsRight(DType accumulator) {
    const Alternative right(wrong_.problem);
    const Trial trial(wrong_, right, accumulator);
    if (!IsAffordable(trial) || !trial.Survives(positions_)) return false;
    const std::optional<Evidence> evidence = trial.Confirm(parallel_);
    if (!evidence) return false;
    found_ = Diagnosis{"summation-order",
                       evidence->exactly,
                       "the golden is right: its sums were only added up in another order, which "
                       "shows in the last bits; compare with --tolerance auto",
                       {}};
    return true;
  }

  bool IsAffordable(const Trial& trial) const {
    return trial.CopiedBytes() <= wrong_.spare_bytes &&
           wrong_.problem.ValidTerms() <= wrong_.max_terms;
  }

  template <class Wanted>
  void Try(DType accumulator, const Wanted& wanted) {
    std::vector<uint8_t> survives(hypotheses_.size());
    parallel_.For(static_cast<int64_t>(hypotheses_.size()), [&](int64_t i) {
      const Alternative& alternative = hypotheses_[static_cast<size_t>(i)].alternative;
      survives[static_cast<size_t>(i)] =
          wanted(alternative) && Trial(wrong_, alternative, accumulator).Survives(positions_);
    });
    for (size_t i = 0; i < hypotheses_.size(); ++i) {
      if (survives[i] && !IsEnough(hypotheses_[i])) Confirm(hypotheses_[i], accumulator);
    }
  }

  // Narrow sums explain nearly all that is nearly right: the last resort.
  bool IsEnough(const Hypothesis& hypothesis) const {
    constexpr size_t kMostNames = 4;
    if (!found_) return false;
    return hypothesis.alternative.finish == Finish::kNarrowSums ||
           found_->also.size() + 1 >= kMostNames || IsNamed(hypothesis.name);
  }
  bool IsNamed(const std::string& name) const {
    return found_->hypothesis == name ||
           std::find(found_->also.begin(), found_->also.end(), name) != found_->also.end();
  }

  void Confirm(const Hypothesis& hypothesis, DType accumulator) {
    const Trial trial(wrong_, hypothesis.alternative, accumulator);
    if (!IsAffordable(trial)) return;
    const std::optional<Evidence> evidence = trial.Confirm(parallel_);
    if (!evidence || !trial.IsConvincing(*evidence)) return;
    if (found_) {
      found_->also.push_back(hypothesis.name);
    } else {
      found_ = Diagnosis{hypothesis.name, evidence->exactly, hypothesis.sentence, {}};
    }
  }

  const WrongGolden& wrong_;
  const Parallel& parallel_;
  const std::vector<Hypothesis> hypotheses_;
  const std::vector<int64_t> positions_;
  std::optional<Diagnosis> found_;
};

}  // namespace

std::optional<Diagnosis> Diagnose(const WrongGolden& wrong, const Parallel& parallel) {
  return Search(wrong, parallel).Run();
}

}  // namespace convgrad
