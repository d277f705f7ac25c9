#include "verify/diagnosis/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/statistics.h"
#include "verify/arithmetic/search.h"
#include "verify/diagnosis/bias.h"
#include "verify/diagnosis/hypotheses.h"
#include "verify/diagnosis/lost_update.h"
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

bool IsFinite(const Tensor& tensor) {
  const SpecialCounts counts = CountSpecial(tensor);
  return counts.nan + counts.inf == 0;
}

class Search {
 public:
  Search(const WrongGolden& wrong, const Parallel& parallel)
      : wrong_(wrong),
        parallel_(parallel),
        hypotheses_(HypothesesFor(wrong)),
        positions_(TellingPositions(wrong)) {}

  static std::vector<Hypothesis> HypothesesFor(const WrongGolden& wrong) {
    std::vector<Hypothesis> all;
    if (!IsFinite(wrong.first) || !IsFinite(wrong.second)) AddMultipliedPadding(wrong.problem, all);
    std::vector<Hypothesis> unwritten = UnwrittenParts(wrong.problem, wrong.actual, wrong.golden);
    std::move(unwritten.begin(), unwritten.end(), std::back_inserter(all));
    std::vector<Hypothesis> others = AllHypotheses(wrong.problem);
    std::move(others.begin(), others.end(), std::back_inserter(all));
    std::vector<Hypothesis> lost = LostUpdates(wrong.problem, wrong.actual, wrong.golden);
    std::move(lost.begin(), lost.end(), std::back_inserter(all));
    return all;
  }

  std::optional<Diagnosis> Run() {
    if (positions_.empty()) return std::nullopt;
    const DType dtype = wrong_.problem.dtype;
    const DType wide = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const DType accumulator = wrong_.accumulator.value_or(wide);
    if (IsRight(accumulator)) return found_;
    Try(hypotheses_, accumulator, [](const Alternative&) { return true; });
    if (!found_ && !wrong_.accumulator && InfoOf(dtype).bytes == 2 && !IsRightInSums(dtype)) {
      // Its maker may have summed in the type itself on top of that.
      Try(hypotheses_, dtype, [](const Alternative& a) { return a.finish == Finish::kRounded; });
    }
    if (!found_) TryPairs(accumulator);
    return found_;
  }

 private:
  // Says whether sums in `accumulator` alone explain all that tells most: then nothing speaks for a
  // mistake beside them, and such wide bounds would let most mistakes live long.
  bool IsRightInSums(DType accumulator) const {
    const Alternative right(wrong_.problem);
    return Trial(wrong_, right, accumulator).Survives(positions_);
  }

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

  // Two mistakes at once, and those with numbers that only the golden tells; where nothing simpler
  // explains it.
  void TryPairs(DType accumulator) {
    std::vector<Hypothesis> pairs = LikelyPairs(wrong_.problem);
    std::vector<Hypothesis> biased = Biased(accumulator);
    std::move(pairs.begin(), pairs.end(), std::back_inserter(biased));
    // A few seconds, where each of them takes one element.
    constexpr int64_t kMostTerms = int64_t{1} << 29;
    const int64_t most = kMostTerms / std::max<int64_t>(1, wrong_.problem.MaxTerms());
    if (std::ssize(biased) > most) biased.resize(static_cast<size_t>(most), biased.front());
    Try(biased, accumulator, [](const Alternative&) { return true; });
  }

  // The right computation, and those with other windows, with a bias and perhaps an activation.
  std::vector<Hypothesis> Biased(DType accumulator) const {
    std::vector<Hypothesis> biased;
    if (InfoOf(wrong_.problem.op).direction == Direction::kBackpropFilter) return biased;
    std::vector<Hypothesis> bases = {{"", "", Alternative(wrong_.problem)}};
    AddAttributes(wrong_.problem, bases);
    AddActivations(wrong_.problem, bases);
    std::vector<std::optional<Hypothesis>> found(2 * bases.size());
    parallel_.For(std::ssize(found), [&](int64_t i) {
      const BiasKind kind = i % 2 == 0 ? BiasKind::kOneNumber : BiasKind::kByChannel;
      found[static_cast<size_t>(i)] =
          WithBias(wrong_, bases[static_cast<size_t>(i / 2)], kind, accumulator);
    });
    for (std::optional<Hypothesis>& one : found) {
      if (one) biased.push_back(*std::move(one));
    }
    return biased;
  }

  template <class Wanted>
  void Try(const std::vector<Hypothesis>& hypotheses, DType accumulator, const Wanted& wanted) {
    std::vector<uint8_t> survives(hypotheses.size());
    parallel_.For(static_cast<int64_t>(hypotheses.size()), [&](int64_t i) {
      const Alternative& alternative = hypotheses[static_cast<size_t>(i)].alternative;
      survives[static_cast<size_t>(i)] =
          wanted(alternative) && Trial(wrong_, alternative, accumulator).Survives(positions_);
    });
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      if (survives[i] && !IsEnough(hypotheses[i])) Confirm(hypotheses[i], accumulator);
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

// --- the arithmetic ---

// True if an arithmetic that gives the golden bit for bit would say more.
bool MayNameArithmetic(const std::optional<Diagnosis>& diagnosis) {
  constexpr std::string_view kOfArithmetic[] = {"operands-rounded", "computed-narrow",
                                                "narrow-sums", kRightGolden};
  if (!diagnosis) return true;
  return !diagnosis->exactly && std::find(std::begin(kOfArithmetic), std::end(kOfArithmetic),
                                          diagnosis->hypothesis) != std::end(kOfArithmetic);
}

void NameArithmetic(const WrongGolden& wrong, const Parallel& parallel,
                    std::optional<Diagnosis>& diagnosis, std::string* untried) {
  const Tensor& golden = wrong.as_given != nullptr ? *wrong.as_given : wrong.golden;
  const ArithmeticSearch search =
      FindArithmetic(wrong.problem, wrong.first, wrong.second, golden, parallel);
  if (!search.found) {
    if (untried != nullptr && search.untried > 0) {
      *untried = "which arithmetic made it was looked for among few models only: its sums are long";
    }
    return;
  }
  const bool is_right = diagnosis && diagnosis->hypothesis == kRightGolden;
  if (diagnosis && !is_right && !search.found->bit_for_bit) return;
  Diagnosis found = {search.found->kind.name, search.found->bit_for_bit, search.found->words, {}};
  found.bit_for_bit = search.found->bit_for_bit;
  found.looks = !found.bit_for_bit;
  found.is_mistake = search.found->kind.is_mistake;
  if (is_right) {
    found.hypothesis = kRightGolden;
    found.sentence = diagnosis->sentence + ". " + search.found->words;
  } else {
    found.sentence += fmt::format(". {}", search.found->kind.remedy);
    if (diagnosis && diagnosis->hypothesis != found.hypothesis) {
      found.also.push_back(diagnosis->hypothesis);
    }
  }
  diagnosis = std::move(found);
}

}  // namespace

std::string ToItsMaker(std::string sentence) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"the golden's maker", "your kernel"},
      {"the golden's", "your kernel's"},
      {"the golden", "yours"}};
  for (const auto& [golden, yours] : kWords) {
    for (size_t at = 0; (at = sentence.find(golden, at)) != std::string::npos;) {
      sentence.replace(at, golden.size(), yours);
    }
  }
  return sentence;
}

const char* ExplainsHow(const Diagnosis& diagnosis) {
  if (diagnosis.bit_for_bit) return "bit for bit";
  if (diagnosis.looks) return "by its looks";
  return diagnosis.exactly ? "exactly" : "within its bound";
}

std::optional<Diagnosis> Diagnose(const WrongGolden& wrong, const Parallel& parallel,
                                  std::string* untried) {
  std::optional<Diagnosis> diagnosis = Search(wrong, parallel).Run();
  if (MayNameArithmetic(diagnosis)) NameArithmetic(wrong, parallel, diagnosis, untried);
  return diagnosis;
}

}  // namespace convgrad
