// Paths as names of tensors.
#include "files/tensor_path.h"

#include <gtest/gtest.h>

namespace convgrad {
namespace {

struct Row {
  const char* text;
  const char* file;
  std::optional<std::string> name;
  TensorFormat format;
};

TEST(TensorPath, NamesAreWhatFollowsTheEnding) {
  using enum TensorFormat;
  const Row rows[] = {
      {"x.npy", "x.npy", std::nullopt, kNpy},
      {"x", "x", std::nullopt, kNpy},
      {"a:b.npy", "a:b.npy", std::nullopt, kNpy},
      {"x.npy:y", "x.npy:y", std::nullopt, kNpy},
      {"-", "-", std::nullopt, kNpy},
      {"-:w", "-", "w", kNpy},
      {"./-:w", "./-:w", std::nullopt, kNpy},
      {"x.npz", "x.npz", std::nullopt, kNpz},
      {"d/x.npz:w", "d/x.npz", "w", kNpz},
      {"x.npz:", "x.npz", "", kNpz},
      {"x.npz:a/b:c", "x.npz", "a/b:c", kNpz},
      {"x.npz:y.npz:z", "x.npz", "y.npz:z", kNpz},
      {"m.safetensors", "m.safetensors", std::nullopt, kSafetensors},
      {"m.safetensors:conv1.weight", "m.safetensors", "conv1.weight", kSafetensors},
      {"m.safetensors:y.npz:z", "m.safetensors", "y.npz:z", kSafetensors},
      {"a:b.npz:c", "a:b.npz", "c", kNpz},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const TensorPath path = ParseTensorPath(row.text);
    EXPECT_EQ(path.file, row.file);
    EXPECT_EQ(path.name, row.name);
    EXPECT_EQ(FormatOfName(path.file), row.format);
    EXPECT_EQ(ToString(path), row.text);
    EXPECT_EQ(TensorFileOf(row.text), row.file);
    EXPECT_EQ(IsStandardStream(row.text), std::string(row.file) == "-");
  }
}

}  // namespace
}  // namespace convgrad
