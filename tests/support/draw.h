// Random problems are drawn with this: numbers that one seed makes the same everywhere, which the
// standard library's distributions don't promise, and lists of them as text.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace convgrad::testing {

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}

  // A number from `least` to `most`.
  int64_t operator()(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(NextBits() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int64_t n) { return (*this)(1, n) == 1; }
  template <class T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[(*this)(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  uint64_t NextBits() {  // SplitMix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// "1,2,3"
inline std::string ListOf(std::initializer_list<int64_t> values) {
  std::string list;
  for (const int64_t value : values) list += (list.empty() ? "" : ",") + std::to_string(value);
  return list;
}

}  // namespace convgrad::testing
