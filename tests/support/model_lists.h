// Models of how kernels sum: right ones in orders usual and odd, and wrong ones.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/arithmetic_models.h"

namespace convgrad::testing {

struct Model {
  std::string name;
  std::function<double(const Terms&)> sum;
};

inline void AddRightChains(std::vector<Model>& models) {
  const auto add = [&](const std::string& name, const std::function<Places(const Terms&)>& places) {
    for (const bool fused : {false, true}) {
      models.push_back({name + (fused ? ", fused" : ""), [places, fused](const Terms& terms) {
                          return ChainOver(terms, places(terms), WideFormatOf(terms), fused);
                        }});
    }
  };
  add("forwards", [](const Terms& t) { return InOrder(t.size()); });
  add("backwards", [](const Terms& t) {
    Places places = InOrder(t.size());
    std::reverse(places.begin(), places.end());
    return places;
  });
  add("images innermost", [](const Terms& t) { return Strided(t.size(), t.pixels()); });
  for (const size_t step : {2, 3, 7, 16, 64}) {
    add("every " + std::to_string(step) + "th term",
        [step](const Terms& t) { return Strided(t.size(), step); });
  }
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    add("shuffled, " + std::to_string(seed),
        [seed](const Terms& t) { return Shuffled(t.size(), seed); });
  }
  const auto size = [](double a) { return std::fabs(a); };
  add("large terms first", [=](const Terms& t) {
    return SortedBy(t, [=](double a, double b) { return size(a) > size(b); });
  });
  add("small terms first", [=](const Terms& t) {
    return SortedBy(t, [=](double a, double b) { return size(a) < size(b); });
  });
  add("ascending", [](const Terms& t) { return SortedBy(t, std::less<>()); });
  add("descending", [](const Terms& t) { return SortedBy(t, std::greater<>()); });
  add("positive terms first", [](const Terms& t) {
    return SortedBy(t, [](double a, double b) { return (a > 0) > (b > 0); });
  });
  add("negative terms first", [](const Terms& t) {
    return SortedBy(t, [](double a, double b) { return (a < 0) > (b < 0); });
  });
}

inline void AddRightTrees(std::vector<Model>& models) {
  for (const bool fused : {false, true}) {
    const std::string end = fused ? ", fused" : "";
    for (const size_t leaf : {1, 2, 8, 32, 128}) {
      models.push_back({"pairwise from " + std::to_string(leaf) + end, [=](const Terms& t) {
                          return PairwiseOver(t, 0, t.size(), leaf, WideFormatOf(t), fused);
                        }});
    }
    for (const Split split : {Split::kPieces, Split::kStrided}) {
      for (const size_t parts : {2, 3, 4, 8, 16, 32, 64}) {
        const bool pieces = split == Split::kPieces;
        models.push_back(
            {std::to_string(parts) + (pieces ? " pieces" : " lanes") + end, [=](const Terms& t) {
               const FloatFormat wide = WideFormatOf(t);
               return PartialsOver(t, {parts, split, wide, wide, wide, fused});
             }});
      }
    }
    models.push_back({"an image at a time" + end, [=](const Terms& t) {
                        const FloatFormat wide = WideFormatOf(t);
                        return PartialsOver(t, {t.images, Split::kPieces, wide, wide, wide, fused});
                      }});
    for (const size_t block : {16, 64, 256, 1024}) {
      models.push_back(
          {"blocks of " + std::to_string(block) + " added in double" + end, [=](const Terms& t) {
             const FloatFormat wide = WideFormatOf(t);
             const FloatFormat twice = FormatOf(DType::kFloat64);
             return PartialsOver(
                 t, {(t.size() + block - 1) / block, Split::kPieces, wide, wide, twice, fused});
           }});
    }
  }
}

inline std::vector<Model> RightModels() {
  std::vector<Model> models;
  AddRightChains(models);
  AddRightTrees(models);
  models.push_back({"Kahan", KahanSum});
  models.push_back({"in double", [](const Terms& t) {
                      return ChainOver(t, InOrder(t.size()), FormatOf(DType::kFloat64), false);
                    }});
  for (const int products : {6, 9}) {
    models.push_back({"bf16x3, " + std::to_string(products) + " products", [=](const Terms& t) {
                        return t.dtype == DType::kFloat32
                                   ? SplitOperandsSum(t, products)
                                   : ChainOver(t, InOrder(t.size()), WideFormatOf(t), false);
                      }});
  }
  for (const size_t together : {4, 8, 16}) {
    for (const int extra : {1, 2, 3}) {
      models.push_back({fmt::format("matrix unit of {}, {} extra bits", together, extra),
                        [=](const Terms& t) { return MatrixUnitSum(t, together, extra); }});
    }
  }
  return models;
}

// Models of a type narrower than sums should be.
inline void AddNarrow(const FloatFormat& narrow, std::vector<Model>& models) {
  const std::string in = std::string(" in ") + narrow.name;
  const FloatFormat wide = FormatOf(DType::kFloat32);
  models.push_back({"forwards" + in, [=](const Terms& t) {
                      return ChainOver(t, InOrder(t.size()), narrow, false);
                    }});
  models.push_back({"forwards, fused," + in,
                    [=](const Terms& t) { return ChainOver(t, InOrder(t.size()), narrow, true); }});
  models.push_back({"shuffled" + in, [=](const Terms& t) {
                      return ChainOver(t, Shuffled(t.size(), 9), narrow, false);
                    }});
  models.push_back({"pairwise" + in, [=](const Terms& t) {
                      return PairwiseOver(t, 0, t.size(), 1, narrow, false);
                    }});
  models.push_back({"products" + in, [=](const Terms& t) {
                      ModelChain chain(wide);
                      for (size_t i = 0; i < t.size(); ++i) {
                        chain.Add(RoundTo(narrow, t.x[i] * t.y[i]));
                      }
                      return chain.sum();
                    }});
  for (const size_t parts : {4, 16, 64}) {
    const std::string some = std::to_string(parts);
    models.push_back({some + " pieces stored and added" + in, [=](const Terms& t) {
                        return PartialsOver(t, {parts, Split::kPieces, wide, narrow, narrow});
                      }});
    models.push_back({some + " pieces stored" + in, [=](const Terms& t) {
                        return PartialsOver(t, {parts, Split::kPieces, wide, narrow, wide});
                      }});
    models.push_back({some + " lanes stored and added" + in, [=](const Terms& t) {
                        return PartialsOver(t, {parts, Split::kStrided, wide, narrow, narrow});
                      }});
    models.push_back({some + " lanes" + in, [=](const Terms& t) {
                        return PartialsOver(t, {parts, Split::kStrided, narrow, narrow, narrow});
                      }});
  }
  models.push_back({"images stored and added" + in, [=](const Terms& t) {
                      return PartialsOver(t, {t.images, Split::kPieces, wide, narrow, narrow});
                    }});
}

inline void AddChangedOperands(std::vector<Model>& models) {
  for (const FloatFormat& narrow :
       {kTf32Format, FormatOf(DType::kBFloat16), FormatOf(DType::kFloat16)}) {
    models.push_back({std::string("operands rounded to ") + narrow.name, [=](const Terms& t) {
                        return SumOfChanged(t, [=](double v) { return narrow.Rounded(v); });
                      }});
  }
  models.push_back({"operands cut off to TF32", [](const Terms& t) {
                      return SumOfChanged(t, [](double v) { return CutTo(10, v); });
                    }});
  models.push_back({"operands cut off to bfloat16", [](const Terms& t) {
                      return SumOfChanged(t, [](double v) { return CutTo(7, v); });
                    }});
}

inline void AddLostTerms(std::vector<Model>& models) {
  for (const size_t lost : {1, 2, 3}) {
    models.push_back(
        {fmt::format("last {} pixels of every image dropped", lost), [=](const Terms& t) {
           return SumOfSome(t, [&](size_t i) { return i % t.pixels() + lost < t.pixels(); });
         }});
  }
  models.push_back({"last image dropped", [](const Terms& t) {
                      return SumOfSome(t, [&](size_t i) { return i + t.pixels() < t.size(); });
                    }});
  models.push_back({"every 64th term dropped", [](const Terms& t) {
                      return SumOfSome(t, [](size_t i) { return i % 64 != 63; });
                    }});
  models.push_back({"first image twice", [](const Terms& t) {
                      ModelChain chain(WideFormatOf(t));
                      for (size_t i = 0; i < t.size() + t.pixels(); ++i) {
                        const size_t k = i < t.size() ? i : i - t.size();
                        chain.Add(t.x[k], t.y[k]);
                      }
                      return chain.sum();
                    }});
  models.push_back({"one pixel off", [](const Terms& t) {
                      ModelChain chain(WideFormatOf(t));
                      for (size_t i = 0; i + 1 < t.size(); ++i) chain.Add(t.x[i + 1], t.y[i]);
                      return chain.sum();
                    }});
  models.push_back({"0.1 % too large", [](const Terms& t) {
                      return 1.001 * SumOfSome(t, [](size_t) { return true; });
                    }});
}

// Those that can go wrong with results of this type: narrower sums than float32 are no wider than
// what is stored.
inline std::vector<Model> WrongModels(DType dtype) {
  std::vector<Model> models;
  if (dtype == DType::kFloat32) {
    for (const FloatFormat& narrow :
         {FormatOf(DType::kBFloat16), FormatOf(DType::kFloat16), kTf32Format}) {
      AddNarrow(narrow, models);
    }
    AddChangedOperands(models);
  } else {
    AddNarrow(FormatOf(dtype), models);
  }
  AddLostTerms(models);
  return models;
}

}  // namespace convgrad::testing
