// The reader of JSON text: whatever the text, it and nlohmann's parser agree on whether it is JSON.
#include "cli/manifest/json_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "support/file_testing.h"
#include "support/from_environment.h"

namespace convgrad::cli {
namespace {

// True if nlohmann's parser takes `text` for JSON; nothing where it refuses a number beyond the
// range of double, which the grammar allows and this reader leaves to whoever wants the number.
std::optional<bool> AcceptedElsewhere(const std::string& text) {
  try {
    return !nlohmann::json::parse(text).is_discarded();
  } catch (const nlohmann::json::parse_error&) {
    return false;
  } catch (const nlohmann::json::out_of_range&) {
    return std::nullopt;
  }
}

TEST(JsonReaderTest, AgreesWithAnotherParserOnMutatedTexts) {
  EXPECT_EQ(AcceptedElsewhere("[1e999]"), std::nullopt);
  const uint64_t seed = FromEnvironment("CONVGRAD_TEST_SEED", 1);
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const std::string original =
      R"({"a": [1, -2.5e+3, "\u00e9\n", true, null], "b": {"c": "é", "d": [[], {}]}})";
  const std::string letters = "{}[]\",:\\/u0189.-+eEtfn \n\t\x01\x80\xC3\xA9";
  int legal = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const size_t at = random() % text.size();
      const char letter = letters[random() % letters.size()];
      if (random() % 3 == 0)
        text.erase(at, 1);
      else if (random() % 2 == 0)
        text.insert(at, 1, letter);
      else
        text[at] = letter;
    }
    size_t at = 0;
    JsonReader reader(
        "text",
        [&](char* into, size_t) {
          if (at == text.size()) return size_t{0};
          *into = text[at++];
          return size_t{1};
        },
        JsonReader::Form::kDocument);
    const bool accepts = !CaughtError([&] {
      while (reader.Next().kind != JsonKind::kEnd) {
      }
    });
    const std::optional<bool> expected = AcceptedElsewhere(text);
    if (!expected) continue;
    EXPECT_EQ(accepts, *expected) << text;
    legal += accepts ? 1 : 0;
  }
  EXPECT_GT(legal, 100);
}

}  // namespace
}  // namespace convgrad::cli
