// Computes and times problems for a caller in another process, so that scripts/compare-peers can
// time convgrad, oneDNN and others in turn. Must not know which workloads there are.
//
//   timing_server convgrad|onednn      one request (JSON) a line on stdin, one answer on stdout:
//
//   {"problem": LINE, "first": F, "second": F, "result": F or "", "expected": F or "", "threads":
//   N,
//    "isa": NAME or ""}    computes; answers {"how": ...}, or {"refused": ...} if it can't, or if
//                          the result is not the expected one
//   {"seconds": S}         times that for so long; answers {"ms": [...]}, one for every run
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "peers/contestant.h"
#include "tensor/npy.h"

namespace convgrad::peers {
namespace {

using Json = nlohmann::json;

struct Ready {
  NpyArray first, second;
  std::unique_ptr<Contestant> contestant;
};

std::vector<std::unique_ptr<Contestant>> MakeAll(const std::string& who, const Problem& problem,
                                                 const Ready& ready, const Json& request,
                                                 std::string& refusal) {
  const Tensor& first = ready.first.tensor;
  const Tensor& second = ready.second.tensor;
  Execution execution;
  execution.num_threads = request.at("threads");
  execution.isa = ParseIsa(request.at("isa").get<std::string>());
  if (who == "onednn") return MakeOneDnn(problem, first, second, execution.num_threads, refusal);
  std::vector<std::unique_ptr<Contestant>> all;
  all.push_back(MakeConvgrad(problem, first, second, execution));
  return all;
}

// The fastest of those whose result is the expected one.
std::unique_ptr<Contestant> Best(std::vector<std::unique_ptr<Contestant>> all,
                                 const Tensor* expected, std::string& refusal) {
  std::unique_ptr<Contestant> best;
  double best_ms = 0;
  for (auto& contestant : all) {
    TimeRuns(*contestant, 0);
    const double ms = Median(TimeRuns(*contestant, 0.01));
    const double difference =
        expected == nullptr ? 0 : WorstDifference(contestant->Result(), *expected);
    if (!(difference <= AllowedDifference(contestant->Result().dtype()))) {
      refusal = fmt::format("{}: the result differs by {:.1e}", contestant->How(), difference);
    } else if (best == nullptr || ms < best_ms) {
      best = std::move(contestant);
      best_ms = ms;
    }
  }
  return best;
}

Json Prepare(const std::string& who, const Json& request, Ready& ready) {
  const Problem problem = ParseProblem(request.at("problem"));
  const NpyReadOptions options = {.view_as = problem.dtype};
  ready.contestant.reset();
  ready.first = ReadNpy(request.at("first"), options);
  ready.second = ReadNpy(request.at("second"), options);
  std::optional<NpyArray> expected;
  if (request.at("expected") != "") expected = ReadNpy(request.at("expected"), options);
  std::string refusal;
  ready.contestant = Best(MakeAll(who, problem, ready, request, refusal),
                          expected ? &expected->tensor : nullptr, refusal);
  if (ready.contestant == nullptr) return {{"refused", refusal}};
  if (request.at("result") != "") {
    WriteNpy(request.at("result"), ready.contestant->Result(), {.bfloat16_as = BFloat16Form::kU2});
  }
  return {{"how", ready.contestant->How()}};
}

Json Answer(const std::string& who, const Json& request, Ready& ready) {
  try {
    if (request.contains("problem")) return Prepare(who, request, ready);
    return {{"ms", TimeRuns(*ready.contestant, request.at("seconds"))}};
  } catch (const Error& error) {
    return {{"refused", error.what()}};
  }
}

int Serve(const std::string& who) {
  const std::string name = who == "onednn" ? OneDnnName() : "convgrad";
  if (name.empty()) return 1;
  std::cout << Json{{"name", name}} << std::endl;
  Ready ready;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << Answer(who, Json::parse(line), ready) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace convgrad::peers

int main(int argc, char** argv) {
  return convgrad::peers::Serve(argc > 1 ? argv[1] : "convgrad");
}
