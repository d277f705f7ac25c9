#include "verify/truth/fill.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "verify/truth/normal_quantile.h"

namespace convgrad {
namespace {

constexpr std::string_view kPrefix = "fill:";
constexpr std::pair<FillSpec::Kind, std::string_view> kKinds[] = {
    {FillSpec::Kind::kInteger, "integer"}, {FillSpec::Kind::kNormal, "normal"},
    {FillSpec::Kind::kUniform, "uniform"}, {FillSpec::Kind::kZeros, "zeros"},
    {FillSpec::Kind::kOnes, "ones"},       {FillSpec::Kind::kImpulse, "impulse"}};

[[noreturn]] void Refuse(std::string_view text, std::string why) {
  ThrowUsage("fill/syntax", fmt::format("fill '{}'", text), std::move(why),
             "use integer, normal, uniform:LOW:HIGH, zeros, ones or impulse:INDEX, with @N,H,W,C "
             "where the shape can't be inferred and #SEED for a seed of its own");
}

template <class Number>
Number ParseNumber(std::string_view text, std::string_view whole) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Refuse(whole, fmt::format("'{}' is not a number in range", text));
  }
  return value;
}

// The part before the first `separator`, which with it is taken off `rest`.
std::string_view TakeUntil(char separator, std::string_view& rest) {
  const size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return part;
}

Shape ParseShape(std::string_view text, std::string_view whole) {
  if (text.ends_with(',')) Refuse(whole, "a size is missing after the last comma");
  Shape shape;
  do {
    const int64_t size = ParseNumber<int64_t>(TakeUntil(',', text), whole);
    if (size < 0 || size > kMaxDimension) {
      Refuse(whole, fmt::format("a dimension is from 0 to {}", kMaxDimension));
    }
    shape.push_back(size);
  } while (!text.empty());
  const auto count = CheckedProduct(shape);
  if (!count || *count > kMaxElements) Refuse(whole, "the shape has 2^48 elements or more");
  return shape;
}

uint64_t ParseSeed(std::string_view text, std::string_view whole) {
  const auto seed = ParseNumber<int64_t>(text, whole);
  if (seed < 0) Refuse(whole, "the seed is negative");
  return static_cast<uint64_t>(seed);
}

void ParseUniform(std::string_view arguments, std::string_view whole, FillSpec& spec) {
  const size_t colon = arguments.find(':');
  if (colon == std::string_view::npos) Refuse(whole, "uniform needs its two ends");
  spec.low = ParseNumber<double>(arguments.substr(0, colon), whole);
  spec.high = ParseNumber<double>(arguments.substr(colon + 1), whole);
  if (!std::isfinite(spec.low) || !std::isfinite(spec.high))
    Refuse(whole, "the ends are not finite");
  if (spec.low > spec.high) Refuse(whole, "the low end is over the high end");
}

// The random bits of one element: position `element` of the SplitMix64 sequence (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) that starts from `key`.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
uint64_t KeyOf(uint64_t seed, Role role) {
  return Mix(Mix(seed + kGamma) + kGamma * (static_cast<uint64_t>(role) + 1));
}
uint64_t RandomBits(uint64_t key, int64_t element) {
  return Mix(key + kGamma * (static_cast<uint64_t>(element) + 1));
}

// How often the density of integer fills has been halved at `element`: at 2^20, 2^22, 2^24 and so
// on.
//
// The sum S of |x*y| of one result element must stay below 2^24, though a generator that knows only
// the element's index knows no reduction length. No index comes twice in a reduction and products
// average 9/4 without zeros, so in the worst case, where both operands' indices are 0, 1, 2, ...
// (filter gradient, one channel), S is about 9/4 * sum of density(i)^2, that is 9/4 * 2^20 from the
// first 2^20 indices and 9/4 * 3/4 * 2^20 from each fourfold step after them: below 2^24 up to 2^34
// elements. A reduction that moves along one operand only (forward, input gradient) stays below
// 2^24 up to 2^24 terms. Shorter tensors, all usual ones, have no zeros and hide nothing.
int HalvingsAt(int64_t element) {
  int halvings = 0;
  for (int64_t i = element >> 20; i > 0; i >>= 2) ++halvings;
  return halvings;
}

double IntegerAt(uint64_t random, int64_t element) {
  const int halvings = HalvingsAt(element);
  if (halvings > 0 && random >> (64 - halvings) != 0) return 0;
  const double magnitude = (random & 1) != 0 ? 2 : 1;
  return (random & 2) != 0 ? -magnitude : magnitude;
}

// The middles of 2^35 equal parts of (0, 1).
double NormalAt(uint64_t random) {
  return NormalQuantile((static_cast<double>(random >> 29) + 0.5) * 0x1p-35);
}

// A weighted mean, since high - low may overflow.
double UniformAt(uint64_t random, double low, double high) {
  const double weight = static_cast<double>(random >> 11) * 0x1p-53;
  return std::clamp(low * (1 - weight) + high * weight, low, high);
}

double ValueAt(const FillSpec& spec, uint64_t key, int64_t element) {
  switch (spec.kind) {
    case FillSpec::Kind::kInteger: return IntegerAt(RandomBits(key, element), element);
    case FillSpec::Kind::kNormal: return NormalAt(RandomBits(key, element));
    case FillSpec::Kind::kUniform: return UniformAt(RandomBits(key, element), spec.low, spec.high);
    case FillSpec::Kind::kZeros: return 0;
    case FillSpec::Kind::kOnes: return 1;
    case FillSpec::Kind::kImpulse: return element == spec.index ? 1 : 0;
  }
  ThrowInternal("unknown kind of fill");
}

void CheckFits(const FillSpec& spec, DType dtype, const Tensor& tensor) {
  if (spec.kind == FillSpec::Kind::kImpulse && spec.index >= tensor.num_elements()) {
    ThrowUsage("fill/range", fmt::format("fill '{}'", spec.ToString()),
               fmt::format("the tensor {} has {} elements", ToString(tensor.shape()),
                           tensor.num_elements()),
               "indices start from 0 and count in C order");
  }
  if (spec.kind != FillSpec::Kind::kUniform) return;
  const bool fits = VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    return std::isfinite(Widen(Narrow<Stored>(spec.low))) &&
           std::isfinite(Widen(Narrow<Stored>(spec.high)));
  });
  if (fits) return;
  ThrowUsage("fill/range", fmt::format("fill '{}'", spec.ToString()),
             fmt::format("{} does not reach that far", InfoOf(dtype).name), "use smaller ends");
}

}  // namespace

std::string FillSpec::ToString() const {
  std::string text;
  for (const auto& [named, name] : kKinds) {
    if (named == kind) text = name;
  }
  if (kind == Kind::kUniform) text += fmt::format(":{}:{}", low, high);
  if (kind == Kind::kImpulse) text += fmt::format(":{}", index);
  if (shape) text += fmt::format("@{}", fmt::join(*shape, ","));
  if (seed) text += fmt::format("#{}", *seed);
  return text;
}

bool IsFill(std::string_view operand) {
  return operand.substr(0, kPrefix.size()) == kPrefix;
}

FillSpec ParseFill(std::string_view text) {
  std::string_view seed = IsFill(text) ? text.substr(kPrefix.size()) : text;
  const bool has_seed = seed.find('#') != std::string_view::npos;
  std::string_view shape = TakeUntil('#', seed);
  const bool has_shape = shape.find('@') != std::string_view::npos;
  std::string_view arguments = TakeUntil('@', shape);
  const bool has_arguments = arguments.find(':') != std::string_view::npos;
  const std::string_view name = TakeUntil(':', arguments);

  FillSpec spec;
  const auto row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                [&](const auto& kind) { return kind.second == name; });
  if (row == std::end(kKinds)) Refuse(text, fmt::format("there is no fill '{}'", name));
  spec.kind = row->first;
  if (spec.kind == FillSpec::Kind::kUniform) {
    ParseUniform(arguments, text, spec);
  } else if (spec.kind == FillSpec::Kind::kImpulse) {
    spec.index = ParseNumber<int64_t>(arguments, text);
    if (spec.index < 0) Refuse(text, "the index is negative");
  } else if (has_arguments) {
    Refuse(text, fmt::format("{} takes no arguments", name));
  }
  if (has_shape) spec.shape = ParseShape(shape, text);
  if (has_seed) spec.seed = ParseSeed(seed, text);
  return spec;
}

Tensor MakeFill(const FillSpec& spec, DType dtype, const Shape& shape, uint64_t seed, Role role,
                const Parallel& parallel) {
  Tensor tensor(dtype, shape);
  CheckFits(spec, dtype, tensor);
  const uint64_t key = KeyOf(seed, role);
  constexpr int64_t kPiece = 1 << 16;
  const int64_t num_elements = tensor.num_elements();
  VisitFloat(dtype, [&](auto tag) {
    using Stored = typename decltype(tag)::Type;
    Stored* elements = tensor.mutable_data<Stored>();
    parallel.For(CeilDiv(num_elements, kPiece), [&](int64_t piece) {
      const int64_t end = std::min(num_elements, (piece + 1) * kPiece);
      for (int64_t i = piece * kPiece; i < end; ++i) {
        elements[i] = Narrow<Stored>(ValueAt(spec, key, i));
      }
    });
  });
  return tensor;
}

}  // namespace convgrad
