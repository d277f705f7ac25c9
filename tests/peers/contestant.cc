// convgrad as a contestant, and what is done alike with all of them.
#include "peers/contestant.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace convgrad::peers {
namespace {

class Convgrad : public Contestant {
 public:
  Convgrad(const Problem& problem, const Tensor& first, const Tensor& second,
           const Execution& execution)
      : computation_(problem, execution),
        first_(first),
        second_(second),
        result_(problem.dtype, problem.ResultShape()) {}

  void Run() override { computation_.Run(first_, second_, result_); }
  const Tensor& Result() const override { return result_; }
  std::string How() const override { return computation_.info().algorithm; }

 private:
  const Computation computation_;
  const Tensor& first_;
  const Tensor& second_;
  Tensor result_;
};

}  // namespace

std::unique_ptr<Contestant> MakeConvgrad(const Problem& problem, const Tensor& first,
                                         const Tensor& second, const Execution& execution) {
  return std::make_unique<Convgrad>(problem, first, second, execution);
}

std::vector<double> TimeRuns(Contestant& contestant, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto stop = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<double> ms;
  do {
    const auto start = Clock::now();
    contestant.Run();
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  } while (Clock::now() < stop);
  return ms;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double WorstDifference(const Tensor& actual, const Tensor& expected) {
  double worst = 0, largest = 0;
  VisitFloat(expected.dtype(), [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      const double value = Widen(expected.data<Stored>()[i]);
      largest = std::max(largest, std::abs(value));
      const double difference = std::abs(Widen(actual.data<Stored>()[i]) - value);
      if (!(difference <= worst)) worst = difference;  // a NaN stays
    }
  });
  return largest == 0 ? worst : worst / largest;
}

double AllowedDifference(DType dtype) {
  return std::ldexp(1, -InfoOf(dtype).fraction_bits + 1);
}

}  // namespace convgrad::peers
