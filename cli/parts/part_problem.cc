#include "cli/parts/part_problem.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "order/fixed_point.h"

namespace convgrad::cli {
namespace {

constexpr std::string_view kInput = " in=", kOpen = " in=*,";

[[noreturn]] void ThrowHeader(const std::string& name, const std::string& why) {
  ThrowData("part/header", name, why, "compute the part again");
}

void CheckSums(const std::string& name, const PartSums& sums, const Problem& problem) {
  const WordWindow widest = WidestWindow(problem.dtype);
  const bool fits = sums.first_word >= widest.first && sums.first_word + sums.words <= widest.end();
  if (fits && sums.elements == problem.NumResults()) return;
  ThrowHeader(name, "its sums are not those of its problem");
}

}  // namespace

std::string LineOfAnyBatch(const Problem& problem) {
  std::string line = problem.ToLine();
  const size_t begin = line.find(kInput) + kInput.size();
  return line.replace(begin, line.find(',', begin) - begin, "*");
}

Problem ProblemOfPart(const std::string& name, const PartHeader& header, int64_t images) {
  const size_t open = header.problem.find(kOpen);
  if (open == std::string::npos) ThrowHeader(name, "its problem leaves no batch open");
  std::string line = header.problem;
  line.replace(open + kInput.size(), 1, fmt::format("{}", images));
  std::optional<Problem> problem;
  try {
    problem = ParseProblem(line);
  } catch (const Error& error) {
    ThrowHeader(name, error.message());
  }
  const bool is_sum = InfoOf(problem->op).direction == Direction::kBackpropFilter;
  if (is_sum != header.sums.has_value() || LineOfAnyBatch(*problem) != header.problem) {
    ThrowHeader(name, "what it holds is not what its problem has");
  }
  if (is_sum) {
    CheckSums(name, *header.sums, *problem);
  } else if (header.image_bytes != problem->ResultBytes() / images) {
    ThrowHeader(name, "its results are not those of its problem");
  }
  return *problem;
}

}  // namespace convgrad::cli
