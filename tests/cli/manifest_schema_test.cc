// The JSON Schema of manifests: complete by the table of flags, and it takes what the tool takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "cli/manifest/lint.h"
#include "cli/options/flags.h"
#include "support/file_testing.h"

namespace convgrad::cli {
namespace {

using nlohmann::json;

json Document() {
  return json::parse(ReadBytes(CONVGRAD_SOURCE_DIR "/data/manifest.schema.json"));
}

bool Takes(const json& manifest) {
  const json document = Document();
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
  valijson::Validator validator;
  return validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(manifest), nullptr);
}

json ManifestOf(const json& keys) {
  json one = {{"name", "a"},
              {"op", "conv2d"},
              {"input", "x.npy"},
              {"filter", "w.npy"},
              {"padding", "VALID"}};
  one.update(keys);
  return {{"schema", "convgrad-manifest/1"}, {"cases", {one}}};
}

bool TakesCase(const json& keys) {
  return Takes(ManifestOf(keys));
}

bool ToolTakes(const json& manifest) {
  const ScratchDirectory directory;
  const std::string path = directory / "m.json";
  WriteBytes(path, manifest.dump());
  return LintManifest(ManifestFile(path), {}, {}, [](const Error&) {}).has_value();
}

std::set<std::string> KeysOf(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(ManifestSchema, HasEveryKeyOfACase) {
  std::set<std::string> keys = {"op", "tags", "count"};
  for (const Flag& flag : AllFlags()) {
    if (IsCaseKey(flag)) keys.insert(KeyOf(flag));
  }
  const json document = Document();
  EXPECT_EQ(KeysOf(document["definitions"]["case"]["properties"]), keys);
  for (const char* own : {"name", "count", "output", "actual", "actual_parts", "expect"}) {
    keys.erase(own);
  }
  EXPECT_EQ(KeysOf(document["properties"]["defaults"]["properties"]), keys);
}

// By the words of the table of flags: "NHWC|NCHW".
TEST(ManifestSchema, HasEveryChoice) {
  const json keys = Document()["definitions"]["case"]["properties"];
  int choices = 0;
  for (const FlagId id : {FlagId::kDataFormat, FlagId::kFilterFormat, FlagId::kBFloat16As,
                          FlagId::kIsa, FlagId::kPrecision}) {
    std::istringstream words(InfoOf(id).value);
    json expected = json::array();
    for (std::string word; std::getline(words, word, '|');) {
      std::string lower = word;
      for (char& letter : lower) letter = static_cast<char>(std::tolower(letter));
      EXPECT_TRUE(TakesCase({{KeyOf(InfoOf(id)), lower}})) << lower;
      expected.push_back(word);
      ++choices;
    }
    EXPECT_EQ(keys[KeyOf(InfoOf(id))]["anyOf"][0]["enum"], expected);
  }
  EXPECT_EQ(choices, 16);
}

TEST(ManifestSchema, TakesTheProjectsManifests) {
  for (const char* manifest : {"/data/golden/manifest.json", "/tests/consumer/manifest.json",
                               "/tests/consumer/wrong.json"}) {
    EXPECT_TRUE(Takes(json::parse(ReadBytes(std::string(CONVGRAD_SOURCE_DIR) + manifest))))
        << manifest;
  }
}

// And refuses what the tool refuses.
TEST(ManifestSchema, TakesWhatTheToolTakes) {
  int taken = 0;
  const std::initializer_list<json> variants = {
      {{"strides", 2}},
      {{"strides", {1, 2, 2, 1}}},
      {{"strides", "2"}},
      {{"strides", {1, "2"}}},
      {{"strides", {{0, 0}, {1, 1}}}},
      {{"stride", 2}},
      {{"padding", "same"}},
      {{"padding", "SAMEX"}},
      {{"padding", 1}},
      {{"padding", {1, 2}}},
      {{"padding", {{0, 0}, {1, 1}, {1, 1}, {0, 0}}}},
      {{"padding", "1, 1"}},
      {{"padding", "[[0,0],[1,1]]"}},
      {{"padding", true}},
      {{"padding", "EXPLICIT"}, {"explicit_paddings", {1, 1, 1, 1}}},
      {{"padding", "EXPLICIT"}, {"explicit_paddings", {{1, 1}, {1, 1}}}},
      {{"padding", "EXPLICIT"}, {"explicit_paddings", "1,1,1,1"}},
      {{"threads", "all"}},
      {{"threads", 2}},
      {{"threads", "many"}},
      {{"groups", 2}},
      {{"groups", 0}},
      {{"max_memory", "8GiB"}},
      {{"dtype", "float32"}},
      {{"dtype", "torch.bfloat16"}},
      {{"dtype", "half"}},
      {{"dtype", "fp16"}},
      {{"dtype", "bf16"}},
      {{"dtype", "f32"}},
      {{"dtype", "int32"}},
      {{"dtype", "float23"}},
      {{"golden_accumulator", "f8"}},
      {{"golden_accumulator", "bf16"}},
      {{"actual", "y.npy"}, {"actual_parts", json::array({"a.npy", "b.npy"})}},
      {{"actual", "y.npy"}, {"actual_parts", "a.npy"}},
      {{"actual", "y.npy"}, {"actual_parts", "a.npy,b.npy"}},
      {{"actual", "y.npy"}, {"actual_parts", json::array({"a,b.npy"})}},
      {{"actual", "y.npy"}, {"actual_parts", json::array()}},
      {{"actual", "y.npy"}, {"actual_parts", 1}},
      {{"invariance", true}},
      {{"expect", "g.npy"}},
      {{"expect", {{"sha256", std::string(64, '0')}}}},
      {{"expect", {{"sha256", "12"}}}},
      {{"actual", "mine.npy"}},
      {{"actual", {{"sha256", std::string(64, '0')}}}},
      {{"input", {{"fill", "normal"}, {"shape", {1, 2, 2, 1}}, {"seed", 1}}}},
      {{"input", {{"shape", {1}}}}},
      {{"allow_suspect", 1}},
      {{"tags", {"smoke"}}},
      {{"tags", "smoke"}},
      {{"name", ""}},
      {{"seed", -1}},
      {{"output", nullptr}},
  };
  for (const json& keys : variants) {
    const bool is_right = ToolTakes(ManifestOf(keys));
    EXPECT_EQ(TakesCase(keys), is_right) << keys;
    taken += is_right;
  }
  EXPECT_EQ(taken, 29);
  EXPECT_FALSE(Takes({{"schema", "convgrad-manifest/2"}, {"cases", json::array()}}));
  EXPECT_FALSE(Takes({{"schema", "convgrad-manifest/1"}}));
  for (const char* own : {"output", "actual", "expect", "name"}) {
    const json manifest = {{"schema", "convgrad-manifest/1"},
                           {"defaults", {{own, "y.npy"}}},
                           {"cases", json::array()}};
    EXPECT_FALSE(Takes(manifest)) << own;
    EXPECT_FALSE(ToolTakes(manifest)) << own;
  }
}

}  // namespace
}  // namespace convgrad::cli
