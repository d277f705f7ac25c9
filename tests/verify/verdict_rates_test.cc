// How often the comparer is wrong, over random problems of every op, type and layout: right results
// that fail or are suspect, and wrong ones that pass. CONVGRAD_RATE_CASES sets how many cases; the
// figures in docs/design/error-bound.md are of 100,000.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "conv/compute.h"
#include "support/foreign_sums.h"
#include "support/from_environment.h"
#include "support/mistaken_kernel.h"
#include "support/random_problem.h"
#include "support/verdict_testing.h"
#include "verify/compare/compare.h"

namespace convgrad {
namespace {

using testing::Index4;
using testing::IntegerOperands;
using testing::kOrders;
using testing::LargestTerm;
using testing::MakeMistake;
using testing::Mistake;
using testing::Operands;
using testing::RandomOperands;
using testing::SummedInOrder;
using testing::Values;

int NumRateCases() {
  return static_cast<int>(FromEnvironment("CONVGRAD_RATE_CASES", 400));
}

RandomProblemOptions SmallProblems() {
  RandomProblemOptions options;
  options.max_terms = 7'000;  // fewer than the prime that orders of summation stride by
  return options;
}

CheckResult Check(const Problem& problem, const Operands& operands, const Tensor& golden,
                  const CompareOptions& options) {
  static const Parallel parallel(1);
  Execution execution;
  execution.num_threads = 1;
  const Tensor actual = Compute(problem, operands.first, operands.second, execution);
  return CompareToGolden(problem, operands.first, operands.second, actual, golden, options,
                         parallel);
}

TEST(VerdictRates, RightResultsInAnyOrder) {
  RandomProblems problems(20261121, SmallProblems());
  std::mt19937_64 random(1);
  int64_t failed = 0, suspect = 0;
  for (int i = 0; i < NumRateCases(); ++i) {
    const Problem problem = problems.Next();
    const auto seed = static_cast<uint64_t>(i);
    const Operands operands = i % 4 == 0 ? IntegerOperands(problem, seed)
                                         : RandomOperands(problem, seed, Values::kOrdinary);
    const auto order = kOrders[random() % std::size(kOrders)];
    const CheckResult result =
        Check(problem, operands, SummedInOrder(problem, operands, order), {});
    failed += result.status == Verdict::kFailed;
    suspect += result.status == Verdict::kSuspect;
    EXPECT_NE(result.status, Verdict::kFailed)
        << "case " << i << ", order " << static_cast<int>(order) << ": " << problem.ToLine();
  }
  std::printf("right results: %d, FAILED %ld, SUSPECT %ld\n", NumRateCases(), failed, suspect);
  EXPECT_LE(suspect * 1000, NumRateCases());
}

// --- wrong results ---

struct Mutation {
  const char* name;
  // The wrong golden; none where the problem has no place for the defect.
  std::function<std::optional<Tensor>(const Problem&, const Operands&, std::mt19937_64&)> make;
};

std::optional<Tensor> Misplaced(const Problem& problem, const Operands& operands,
                                testing::Misplace Mistake::*tensor, testing::Misplace misplace) {
  Mistake mistake(problem);
  mistake.*tensor = std::move(misplace);
  return MakeMistake(problem, operands, mistake);
}

// The right result with one element changed.
template <class Change>
std::optional<Tensor> WithElement(const Problem& problem, const Operands& operands,
                                  std::mt19937_64& random, const Change& change) {
  Tensor golden = MakeMistake(problem, operands, Mistake(problem));
  if (golden.num_elements() == 0) return std::nullopt;
  const auto size = static_cast<uint64_t>(golden.num_elements());
  const auto element = static_cast<int64_t>(random() % size);
  VisitFloat(problem.dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored& stored = golden.mutable_data<Stored>()[element];
    stored = Narrow<Stored>(change(element, Widen(stored)));
  });
  return golden;
}

const Mutation kMutations[] = {
    {"two taps swapped",
     [](const Problem& problem, const Operands& operands,
        std::mt19937_64&) -> std::optional<Tensor> {
       const bool down = problem.geometry.kernel_h > 1;
       if (!down && problem.geometry.kernel_w < 2) return std::nullopt;
       return Misplaced(problem, operands, &Mistake::filter, [down](Index4 at) {
         int64_t& tap = down ? at[0] : at[1];
         if (at[down ? 1 : 0] == 0 && tap < 2) tap = 1 - tap;
         return at;
       });
     }},
    {"filter transposed",
     [](const Problem& problem, const Operands& operands,
        std::mt19937_64&) -> std::optional<Tensor> {
       if (problem.geometry.kernel_h != problem.geometry.kernel_w) return std::nullopt;
       return Misplaced(problem, operands, &Mistake::filter, [](Index4 at) {
         return Index4{at[1], at[0], at[2], at[3]};
       });
     }},
    {"column shifted",
     [](const Problem& problem, const Operands& operands, std::mt19937_64&) {
       return Misplaced(problem, operands, &Mistake::input,
                        [columns = problem.geometry.in_w](Index4 at) {
                          at[2] = (at[2] + 1) % columns;
                          return at;
                        });
     }},
    {"an image twice",
     [](const Problem& problem, const Operands& operands, std::mt19937_64&) {
       return Misplaced(problem, operands, &Mistake::input, [](Index4 at) {
         if (at[0] == 1) at[0] = 0;
         return at;
       });
     }},
    {"a sign flipped",
     [](const Problem& problem, const Operands& operands, std::mt19937_64& random) {
       return WithElement(problem, operands, random, [](int64_t, double value) { return -value; });
     }},
    {"a term dropped",
     [](const Problem& problem, const Operands& operands, std::mt19937_64& random) {
       return WithElement(problem, operands, random, [&](int64_t element, double value) {
         return value - LargestTerm(problem, operands, element);
       });
     }},
    {"a NaN",
     [](const Problem& problem, const Operands& operands, std::mt19937_64& random) {
       return WithElement(problem, operands, random, [](int64_t, double) { return std::nan(""); });
     }},
};

// Not where a lone tap is swapped, a lone column shifted, or the sign of a zero flipped.
bool IsWrong(const Problem& problem, const Tensor& golden, const Operands& operands) {
  const Tensor right = MakeMistake(problem, operands, Mistake(problem));
  CompareOptions equal;
  equal.tolerance = ParseTolerance("abs:0");
  const Parallel parallel(1);
  return CompareTensors(golden, right, equal, parallel).status == Verdict::kFailed;
}

TEST(VerdictRates, MutationsAreCaught) {
  int64_t all = 0, all_caught = 0;
  for (const Mutation& mutation : kMutations) {
    RandomProblems problems(20261122, SmallProblems());
    std::mt19937_64 random(2);
    int64_t tried = 0, caught = 0;
    for (int i = 0; i < NumRateCases() / static_cast<int>(std::size(kMutations)); ++i) {
      const Problem problem = problems.Next();
      const auto seed = static_cast<uint64_t>(i);
      const Operands operands = i % 2 == 0 ? IntegerOperands(problem, seed)
                                           : RandomOperands(problem, seed, Values::kOrdinary);
      if (operands.first.num_elements() == 0 || operands.second.num_elements() == 0) continue;
      const std::optional<Tensor> golden = mutation.make(problem, operands, random);
      if (!golden || !IsWrong(problem, *golden, operands)) continue;
      ++tried;
      CompareOptions options;
      options.golden_accumulator =
          problem.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
      const bool is_caught = Check(problem, operands, *golden, options).status == Verdict::kFailed;
      caught += is_caught;
      EXPECT_TRUE(is_caught) << mutation.name << ", case " << i << ": " << problem.ToLine();
    }
    std::printf("%-18s tried %ld, caught %ld\n", mutation.name, tried, caught);
    all += tried;
    all_caught += caught;
  }
  std::printf("all mutations: tried %ld, caught %ld\n", all, all_caught);
}

// Any bit of any element, where the golden is known to be this program's own.
TEST(VerdictRates, FlippedBitsAreCaught) {
  RandomProblems problems(20261123, SmallProblems());
  std::mt19937_64 random(3);
  const int num_cases = NumRateCases() / 4;
  int64_t tried = 0;
  for (int i = 0; i < num_cases; ++i) {
    const Problem problem = problems.Next();
    const Operands operands = RandomOperands(problem, static_cast<uint64_t>(i), Values::kOrdinary);
    Tensor golden = Compute(problem, operands.first, operands.second, Execution{});
    if (golden.num_elements() == 0) continue;
    const auto bit = random() % (static_cast<uint64_t>(golden.num_bytes()) * 8);
    golden.mutable_data<uint8_t>()[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    CompareOptions options;
    options.golden_is_ours = true;
    const CheckResult result = Check(problem, operands, golden, options);
    ++tried;
    ASSERT_EQ(result.status, Verdict::kFailed) << "case " << i << ": " << problem.ToLine();
    EXPECT_EQ(result.counts.fail, 1);
  }
  std::printf("flipped bits: tried and caught %ld\n", tried);
}

}  // namespace
}  // namespace convgrad
