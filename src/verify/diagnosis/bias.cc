#include "verify/diagnosis/bias.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "verify/diagnosis/axes.h"
#include "verify/diagnosis/trial.h"

namespace convgrad {
namespace {

// A golden's elements by channel of the result.
class Channels {
 public:
  Channels(const Problem& problem, BiasKind kind)
      : axes_(AxesOf(problem, ResultRole(problem))),
        count_(kind == BiasKind::kByChannel ? axes_.sizes[3] : 1),
        size_(axes_.sizes[0] * axes_.sizes[1] * axes_.sizes[2] *
              (kind == BiasKind::kByChannel ? 1 : axes_.sizes[3])) {}

  int64_t count() const { return count_; }
  int64_t size() const { return size_; }  // elements of each
  int64_t Of(int64_t position) const { return count_ == 1 ? 0 : axes_.IndexOf(position)[3]; }
  // Element `i` of a channel.
  int64_t At(int64_t channel, int64_t i) const {
    if (count_ == 1) return i;
    const int64_t pixel = i % (axes_.sizes[1] * axes_.sizes[2]);
    return axes_.At({i / (axes_.sizes[1] * axes_.sizes[2]), pixel / axes_.sizes[2],
                     pixel % axes_.sizes[2], channel});
  }

 private:
  Axes axes_;
  int64_t count_, size_;
};

class BiasReader {
 public:
  BiasReader(const WrongGolden& wrong, const Alternative& base, BiasKind kind, DType accumulator)
      : wrong_(wrong),
        base_(base),
        channels_(wrong.problem, kind),
        trial_(wrong, base, accumulator),
        roundoff_(std::ldexp(1.0, -InfoOf(accumulator).fraction_bits - 1)) {}

  // The bias of each channel; none where one of them has none that explains some of its elements.
  std::optional<std::vector<Bias>> Read() const {
    std::vector<Bias> biases;
    bool is_any = false;
    for (int64_t channel = 0; channel < channels_.count(); ++channel) {
      const std::optional<Bias> bias = ReadChannel(channel);
      if (!bias) return std::nullopt;
      is_any |= std::fabs(bias->value) > bias->slack;
      biases.push_back(*bias);
    }
    return is_any ? std::optional(std::move(biases)) : std::nullopt;
  }

  const Channels& channels() const { return channels_; }

 private:
  // The biases that every one of some elements allows.
  std::optional<Bias> ReadChannel(int64_t channel) const {
    constexpr int64_t kSamples = 24, kFewest = 2;
    double low = -std::numeric_limits<double>::infinity(), high = -low;
    int64_t seen = 0;
    const int64_t samples = std::min(kSamples, channels_.size());
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t position = channels_.At(channel, i * channels_.size() / samples);
      const double golden = GoldenAt(position);
      if (!IsTelling(golden)) continue;
      const std::optional<Truth> truth = trial_.RoughAt(position);
      if (!truth || truth->exponent != 0 || !std::isfinite(truth->high)) return std::nullopt;
      const double added = golden - truth->high;
      const double error = ErrorOf(golden, *truth, added);
      low = std::max(low, added - error);
      high = std::min(high, added + error);
      if (low > high) return std::nullopt;
      ++seen;
    }
    if (seen < kFewest) return std::nullopt;
    return Bias{low + (high - low) / 2, (high - low) / 2};
  }

  double GoldenAt(int64_t position) const {
    return VisitFloat(wrong_.golden.dtype(), [&](auto tag) {
      return Widen(wrong_.golden.data<typename decltype(tag)::Type>()[position]);
    });
  }

  // Numbers that an activation put in their place tell no bias.
  bool IsTelling(double golden) const {
    if (!std::isfinite(golden)) return false;
    return base_.finish != Finish::kRectified || (golden > 0 && golden < base_.ceiling);
  }

  // As docs/design/error-bound.md has the usual error, the bias being a term too.
  double ErrorOf(double golden, const Truth& truth, double added) const {
    const DTypeInfo& stored = InfoOf(wrong_.golden.dtype());
    const int exponent =
        std::max(golden == 0 ? -2000 : std::ilogb(golden), 1 - stored.max_exponent);
    const double last_rounding = std::ldexp(1.0, exponent - stored.fraction_bits - 1);
    const double size =
        std::max({std::hypot(truth.norm, added), std::fabs(truth.high), std::fabs(golden)});
    return 8 * std::sqrt(static_cast<double>(truth.terms + 1)) * roundoff_ * size + last_rounding;
  }

  const WrongGolden& wrong_;
  const Alternative& base_;
  Channels channels_;
  Trial trial_;
  double roundoff_;
};

// "0.25", or the first of several.
std::string InWords(const std::vector<Bias>& biases) {
  constexpr size_t kShown = 4;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, biases.size()); ++i) {
    shown.push_back(fmt::format("{:.4g}", biases[i].value));
  }
  return fmt::format("{}{}", fmt::join(shown, ", "), biases.size() > kShown ? ", ..." : "");
}

}  // namespace

std::optional<Hypothesis> WithBias(const WrongGolden& wrong, const Hypothesis& base, BiasKind kind,
                                   DType accumulator) {
  const BiasReader reader(wrong, base.alternative, kind, accumulator);
  const std::optional<std::vector<Bias>> biases = reader.Read();
  if (!biases) return std::nullopt;
  Hypothesis biased = base;
  biased.alternative.fitted = reader.channels().count();
  biased.alternative.bias = [channels = reader.channels(), biases = *biases](int64_t position) {
    return biases[static_cast<size_t>(channels.Of(position))];
  };
  const std::string sentence = fmt::format(
      "the golden has {} added to {}, a bias: leave it out there, or add it here", InWords(*biases),
      kind == BiasKind::kOneNumber ? "every number" : "the numbers of its channels");
  biased.name = base.name.empty() ? "bias-added" : "bias-added+" + base.name;
  biased.sentence = base.sentence.empty() ? sentence : sentence + "; and " + base.sentence;
  return biased;
}

}  // namespace convgrad
