// The kernels of depthwise_rows.h of every table against the formula of that header, one lane at a
// time: tiles of every width, rows and columns off the source, parts of the rows, overlapping
// vectors, fewer channels than a vector has, taps that descend; in turn, filters and strides of any
// size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/depthwise/depthwise_rows.h"
#include "kernels/kernel_table.h"
#include "order/canonical_order.h"
#include "tensor/dtype.h"

namespace convgrad {
namespace {

enum class Kind { kForward, kSpread, kInTurn };

struct RowsCase {
  Kind kind;
  int64_t channels, source_rows, cols, first_row, count_rows, origin, count, stride;
  int64_t num_tap_rows, num_taps, row_stride;
  bool descends, by_pairs;

  std::string Name() const {
    std::string name = kind == Kind::kSpread   ? "spread"
                       : kind == Kind::kInTurn ? "in turn"
                                               : "forward";
    for (const int64_t value : {channels, source_rows, cols, first_row, count_rows, origin, count,
                                stride, num_tap_rows, num_taps, row_stride}) {
      name += " " + std::to_string(value);
    }
    return name +
           " (channels, source rows, cols, first row, rows, origin, columns, stride, rows of taps, "
           "taps, stride of rows)" +
           (by_pairs ? " by pairs" : "");
  }
};

RowsCase RandomRowsCase(std::mt19937_64& random) {
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  RowsCase c = {};
  c.kind = static_cast<Kind>(draw(0, 2));
  c.channels = draw(0, 40);
  c.num_tap_rows = c.num_taps = 3;
  c.count = draw(kLeastRowsColumns, 40);
  c.stride = c.row_stride = c.kind == Kind::kSpread ? 1 : draw(1, 2);
  c.count_rows = draw(1, 8);
  c.source_rows = draw(1, 10);
  c.descends = draw(0, 1) == 1;
  c.by_pairs = draw(0, 1) == 1;
  if (c.kind == Kind::kInTurn) {
    c.count = draw(0, 1) == 1 ? draw(1, 24) : draw(1, 3);
    c.num_tap_rows = draw(0, 5);
    c.num_taps = draw(0, 1) == 1 ? 1 + 2 * draw(1, 2) : draw(1, 7);
    c.stride = draw(1, 3);
    c.row_stride = draw(1, 3);
    c.first_row = draw(-8, 4);
    c.origin = draw(-6, 2);
    c.cols = draw(1, c.count * c.stride + 4);
  } else if (c.kind == Kind::kSpread) {
    c.first_row = draw(0, 6);
    c.origin = draw(0, 3);
    c.cols = (c.origin + c.count - 1) / 2 + draw(0, 2);
  } else {
    c.first_row = draw(-4, 4);
    c.origin = draw(-1, 1);
    c.cols = c.origin + (c.count - 1) * c.stride + 2 + draw(0, 2);
  }
  return c;
}

// Signed zeros and what is no number are among them.
template <class Element>
std::vector<Element> Numbers(int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Element> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t kind = random() % 64;
    const double number = kind == 0                         ? -0.0
                          : kind == 1 && random() % 16 == 0 ? HUGE_VAL
                                                            : uniform(random);
    numbers.push_back(Narrow<Element>(number));
  }
  return numbers;
}

template <class Element>
class RowsCheck {
 public:
  RowsCheck(const RowsCase& c, int64_t group, uint64_t seed)
      : c_(c), channels_(NumChannels(c, group, seed)), random_(seed) {
    source_ = Numbers<Element>(c.source_rows * c.cols * channels_, random_);
    filter_ = Numbers<Element>(num_taps() * channels_, random_);
    if (channels_ < group) {
      end_row_.assign(source_.end() - c.cols * channels_, source_.end());
      end_row_.resize(end_row_.size() + static_cast<size_t>(group));
      filter_.resize(filter_.size() + static_cast<size_t>(group));
      std::fill(source_.end() - c.cols * channels_, source_.end(), Narrow<Element>(42));
    }
    out_.assign(static_cast<size_t>(c.count_rows * c.count * channels_ + 1), Narrow<Element>(42));
  }

  void Run(const KernelTable& table) {
    const auto& kernels = table.DepthwiseRows<Element>();
    switch (c_.kind) {
      case Kind::kForward: kernels.forward_rows(Call()); break;
      case Kind::kSpread: kernels.spread_rows(Call()); break;
      case Kind::kInTurn: kernels.rows_in_turn(Call());
    }
    for (int64_t r = 0; r < c_.count_rows; ++r) {
      for (int64_t t = 0; t < c_.count; ++t) {
        for (int64_t channel = 0; channel < channels_; ++channel) {
          const double actual = Widen(out_[(r * c_.count + t) * channels_ + channel]);
          const double expected = Widen(Narrow<Element>(Expected(r, t, channel)));
          ASSERT_TRUE(Same(actual, expected))
              << NameOf(table.isa) << " row " << r << " column " << t << " channel " << channel
              << ": " << actual << " for " << expected << ", " << c_.Name();
        }
      }
    }
    ASSERT_EQ(Widen(out_.back()), 42) << "written beyond the last result";
  }

 private:
  using Compute = ComputeType<Element>;

  static bool Same(double a, double b) {
    return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) && !std::signbit(a)
                                          : a == b && std::signbit(a) == std::signbit(b);
  }

  // Fewer than a group has where those of the last row but one can be read as a whole vector.
  static int64_t NumChannels(const RowsCase& c, int64_t group, uint64_t seed) {
    const int64_t few = 1 + c.channels % std::max<int64_t>(1, group - 1);
    const bool narrow = sizeof(Element) >= sizeof(float) && c.kind != Kind::kInTurn &&
                        seed % 3 == 0 && few < group && (c.cols + 1) * few >= group;
    return narrow ? few : c.channels + group;
  }

  DepthwiseRows<Element> Call() {
    const int64_t step = c_.descends ? -channels_ : channels_;
    DepthwiseRows<Element> rows = {};
    rows.source = source_.data();
    rows.source_row_step = c_.cols * channels_;
    rows.source_stride = rows.out_stride = rows.channels = channels_;
    rows.num_source_rows = c_.source_rows;
    rows.num_cols = c_.cols;
    rows.filter = filter_.data() + (c_.descends ? (num_taps() - 1) * channels_ : 0);
    rows.filter_row_step = c_.num_taps * step;
    rows.filter_stride = step;
    rows.out = out_.data();
    rows.out_row_step = c_.count * channels_;
    rows.first_row = c_.first_row;
    rows.count_rows = c_.count_rows;
    rows.origin = c_.origin;
    rows.count = c_.count;
    rows.stride = c_.stride;
    rows.by_pairs = c_.by_pairs;
    rows.num_tap_rows = c_.num_tap_rows;
    rows.num_taps = c_.num_taps;
    rows.row_stride = c_.row_stride;
    if (!end_row_.empty()) {
      rows.end_source = end_row_.data();
      rows.end_row = c_.source_rows - 1;
    }
    return rows;
  }

  int64_t num_taps() const { return c_.num_tap_rows * c_.num_taps; }

  // The position if it is one of `size`, or less than 0.
  static int64_t Position(int64_t at, int64_t size) { return at < size ? at : -1; }
  static int64_t Half(int64_t twice, int64_t size) {
    return twice % 2 == 0 ? Position(twice / 2, size) : -1;
  }

  // Ascending positions: forward's taps ascend, spread's descend.
  Compute Expected(int64_t r, int64_t t, int64_t channel) const {
    const bool spread = c_.kind == Kind::kSpread;
    Compute chain = 0;
    for (int64_t n = 0; n < num_taps(); ++n) {
      const int64_t of_order = spread ? num_taps() - 1 - n : n;
      const int64_t i = of_order / c_.num_taps, k = of_order % c_.num_taps;
      const int64_t row = spread ? Half(c_.first_row + r - i, c_.source_rows)
                                 : Position(c_.first_row + r * c_.row_stride + i, c_.source_rows);
      const int64_t col = spread ? Half(c_.origin + t - k, c_.cols)
                                 : Position(c_.origin + t * c_.stride + k, c_.cols);
      if (row < 0 || col < 0) continue;
      const int64_t tap = c_.descends ? num_taps() - 1 - of_order : of_order;
      const bool at_end = !end_row_.empty() && row == c_.source_rows - 1;
      const Element* from = at_end ? end_row_.data() : source_.data() + row * c_.cols * channels_;
      chain = std::fma(static_cast<Compute>(Widen(from[col * channels_ + channel])),
                       static_cast<Compute>(Widen(filter_[tap * channels_ + channel])), chain);
    }
    return chain + 0;  // -0 becomes +0
  }

  const RowsCase& c_;
  const int64_t channels_;
  std::mt19937_64 random_;
  // The last row of the source lies elsewhere where channels are few.
  std::vector<Element> source_, end_row_, filter_, out_;
};

template <class Element>
void Check(const KernelTable& table, const RowsCase& c, uint64_t seed) {
  const auto& kernels = table.DepthwiseRows<Element>();
  ASSERT_EQ(kernels.forward_rows == nullptr, kernels.spread_rows == nullptr);
  if (kernels.forward_rows == nullptr) return;
  if (c.kind == Kind::kInTurn && kernels.rows_in_turn == nullptr) return;
  RowsCheck<Element>(c, kernels.group, seed).Run(table);
}

TEST(DepthwiseRowsKernels, FollowTheFormula) {
  std::mt19937_64 random(5);
  for (uint64_t seed = 0; seed < 900 && !HasFailure(); ++seed) {
    const RowsCase c = RandomRowsCase(random);
    for (const KernelTable& table : SupportedKernels()) {
      Check<Float16>(table, c, seed);
      Check<BFloat16>(table, c, seed);
      Check<float>(table, c, seed);
      Check<double>(table, c, seed);
    }
  }
}

// Plans count on these kernels.
TEST(DepthwiseRowsKernels, AreThereForVectorsOfFloat) {
  for (const KernelTable& table : SupportedKernels()) {
    const bool scalar = table.isa == Isa::kScalar;
    EXPECT_EQ(table.DepthwiseRows<float>().forward_rows == nullptr, scalar) << NameOf(table.isa);
    EXPECT_EQ(table.DepthwiseRows<double>().spread_rows == nullptr, scalar) << NameOf(table.isa);
    EXPECT_EQ(table.DepthwiseRows<float>().rows_in_turn != nullptr, table.isa == Isa::kAvx2)
        << NameOf(table.isa);
  }
}

}  // namespace
}  // namespace convgrad
