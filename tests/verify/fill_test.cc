// Generated operands: what each fill holds, that element i depends on seed, role and i alone, and
// that the bits are the same everywhere and for ever.
#include "verify/truth/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor/tensor_hash.h"
#include "verify/truth/normal_quantile.h"

namespace convgrad {
namespace {

Tensor Make(const std::string& spec, DType dtype, const Shape& shape, uint64_t seed = 0,
            Role role = Role::kInput, int threads = 1) {
  return MakeFill(ParseFill(spec), dtype, shape, seed, role, Parallel(threads));
}

std::vector<double> NumbersOf(const Tensor& tensor) {
  std::vector<double> values;
  VisitFloat(tensor.dtype(), [&](auto tag) {
    const auto* data = tensor.data<typename decltype(tag)::Type>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) values.push_back(Widen(data[i]));
  });
  return values;
}

TEST(ParseFill, ReadsBackWhatItPrints) {
  for (const std::string text :
       {"integer", "normal", "zeros", "ones", "uniform:-1:1", "uniform:0.25:1e+30", "impulse:7",
        "normal@8,56,56,32", "impulse:0@1,1,1,1", "ones@0,3,3,1"}) {
    EXPECT_EQ(ParseFill(text).ToString(), text);
    EXPECT_EQ(ParseFill("fill:" + text).ToString(), text);
  }
  EXPECT_TRUE(IsFill("fill:normal"));
  EXPECT_FALSE(IsFill("normal"));
  EXPECT_FALSE(IsFill("./fill:normal"));
}

TEST(ParseFill, RefusesWhatIsNoFill) {
  for (const std::string text : {"",
                                 "fill:",
                                 "Normal",
                                 "normal:1",
                                 "zeros:",
                                 "uniform",
                                 "uniform:1",
                                 "uniform:1:0",
                                 "uniform:a:b",
                                 "uniform:0:inf",
                                 "uniform:nan:1",
                                 "uniform:0:1:2",
                                 "impulse",
                                 "impulse:",
                                 "impulse:-1",
                                 "impulse:1.5",
                                 "normal@",
                                 "normal@1,2,",
                                 "normal@,1",
                                 "normal@-1",
                                 "normal@1x2",
                                 "ones@1@2",
                                 "ones@3000000000",
                                 "ones@2147483647,2147483647",
                                 "normal @1",
                                 "impulse:99999999999999999999"}) {
    try {
      ParseFill(text);
      ADD_FAILURE() << "'" << text << "' was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage) << text;
      EXPECT_EQ(error.code(), "fill/syntax") << text;
    }
  }
}

TEST(MakeFill, RefusesWhatTheTensorCannotHold) {
  EXPECT_THROW(Make("impulse:6", DType::kFloat32, {2, 3}), Error);
  EXPECT_NO_THROW(Make("impulse:5", DType::kFloat32, {2, 3}));
  EXPECT_THROW(Make("uniform:-1:70000", DType::kFloat16, {2}), Error);
  EXPECT_NO_THROW(Make("uniform:-1:70000", DType::kBFloat16, {2}));
  EXPECT_THROW(Make("uniform:-1e300:1", DType::kFloat32, {2}), Error);
}

TEST(MakeFill, ElementDependsOnSeedRoleAndPositionAlone) {
  for (const std::string spec : {"integer", "normal", "uniform:-1:1"}) {
    const auto values = NumbersOf(Make(spec, DType::kFloat64, {300'000}, 5));
    EXPECT_EQ(NumbersOf(Make(spec, DType::kFloat64, {300'000}, 5, Role::kInput, 3)), values);
    const auto smaller = NumbersOf(Make(spec, DType::kFloat64, {5, 7, 11}, 5));
    EXPECT_TRUE(std::equal(smaller.begin(), smaller.end(), values.begin()));
    EXPECT_NE(NumbersOf(Make(spec, DType::kFloat64, {300'000}, 6)), values);
    EXPECT_NE(NumbersOf(Make(spec, DType::kFloat64, {300'000}, 5, Role::kFilter)), values);
  }
}

// A change of these breaks every recorded golden of generated operands.
TEST(MakeFill, BitsStayTheSameForEver) {
  const auto hash = [](const std::string& spec, DType dtype) {
    return DataHash(Make(spec, dtype, {1000}, 42, Role::kOutBackprop)).substr(0, 16);
  };
  EXPECT_EQ(hash("integer", DType::kFloat32), "7e7af186c10921bc");
  EXPECT_EQ(hash("normal", DType::kFloat64), "3155497f52cefa48");
  EXPECT_EQ(hash("normal", DType::kBFloat16), "f931e33b2aaf6006");
  EXPECT_EQ(hash("uniform:-1:1", DType::kFloat16), "fb998d070dc2585b");
}

TEST(MakeFill, IntegerHasSmallIntegersEquallyOften) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    int counts[5] = {};
    for (const double value : NumbersOf(Make("integer", dtype, {100'000}))) {
      ASSERT_TRUE(value == std::floor(value) && std::fabs(value) <= 2) << value;
      ++counts[static_cast<int>(value) + 2];
    }
    EXPECT_EQ(counts[2], 0);  // nothing to hide behind
    for (const int at : {0, 1, 3, 4}) EXPECT_NEAR(counts[at], 25'000, 600);
  }
}

// However long a reduction gets, S = sum of |x*y| stays below 2^24.
TEST(MakeFill, IntegerThinsOutSoThatSumsStayExact) {
  const auto x = NumbersOf(Make("integer", DType::kFloat16, {1 << 23}, 1, Role::kInput));
  const auto y = NumbersOf(Make("integer", DType::kFloat16, {1 << 23}, 1, Role::kOutBackprop));
  double sum = 0;
  int64_t zeros[24] = {};  // by the number of bits of the index
  for (size_t i = 0; i < x.size(); ++i) {
    sum += std::fabs(x[i] * y[i]);
    if (x[i] == 0) ++zeros[static_cast<int>(std::log2(static_cast<double>(i) + 0.5)) + 1];
  }
  EXPECT_LT(sum, 0x1p24);
  EXPECT_EQ(zeros[20], 0);
  EXPECT_NEAR(static_cast<double>(zeros[21]) / (1 << 20), 0.5, 0.01);
  EXPECT_NEAR(static_cast<double>(zeros[23]) / (1 << 22), 0.75, 0.01);
}

TEST(MakeFill, NormalHasTheMomentsOfANormalDistribution) {
  const auto values = NumbersOf(Make("normal", DType::kFloat64, {1'000'000}));
  double moments[5] = {};
  int beyond_three = 0;
  for (const double value : values) {
    double power = 1;
    for (double& moment : moments) moment += std::exchange(power, power * value) / 1e6;
    beyond_three += std::fabs(value) > 3;
  }
  EXPECT_NEAR(moments[1], 0, 0.005);
  EXPECT_NEAR(moments[2], 1, 0.007);
  EXPECT_NEAR(moments[3], 0, 0.02);
  EXPECT_NEAR(moments[4], 3, 0.05);
  EXPECT_NEAR(beyond_three, 2700, 260);  // 0.27 %
}

TEST(MakeFill, UniformFillsItsRange) {
  double sum = 0, least = 10, largest = -10;
  for (const double value : NumbersOf(Make("uniform:-1:3", DType::kFloat32, {100'000}))) {
    sum += value;
    least = std::min(least, value);
    largest = std::max(largest, value);
  }
  EXPECT_NEAR(sum / 1e5, 1, 0.02);
  EXPECT_GE(least, -1);
  EXPECT_LT(least, -0.999);
  EXPECT_LE(largest, 3);
  EXPECT_GT(largest, 2.999);
  for (const double value : NumbersOf(Make("uniform:-1.5e308:1.5e308", DType::kFloat64, {100}))) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(MakeFill, ConstantsAndImpulse) {
  EXPECT_EQ(NumbersOf(Make("zeros", DType::kBFloat16, {3})), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(NumbersOf(Make("ones", DType::kFloat16, {3})), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(NumbersOf(Make("impulse:2", DType::kFloat32, {2, 2})),
            (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(Make("normal", DType::kFloat32, {0, 5}).num_elements(), 0);
}

// Quantiles from tables of 20 digits.
TEST(NormalQuantile, AgreesWithTables) {
  const auto expect = [](double p, double x) {
    EXPECT_NEAR(NormalQuantile(p), x, 4e-15 * std::fabs(x)) << p;
  };
  EXPECT_EQ(NormalQuantile(0.5), 0);
  expect(0.75, 0.67448975019608174320);
  expect(0.25, -0.67448975019608174320);
  expect(0.975, 1.9599639845400542355);
  expect(0.001, -3.0902323061678135415);
  expect(0x1p-36, -6.651035379893009);
}

}  // namespace
}  // namespace convgrad
