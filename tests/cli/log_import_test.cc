// Logs read as a whole: every line is counted once, however the text comes in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/dialects/dialect.h"
#include "cli/dialects/import.h"
#include "cli/dialects/record_reader.h"

namespace convgrad::cli {
namespace {

using ::testing::HasSubstr;

// A log as a stream that gives `piece` bytes at a time.
LogImport Import(const char* dialect, const std::string& text, size_t piece = 1) {
  const Dialect* one = &FindDialect(dialect);
  LogImport log("log.txt", {&one, 1});
  size_t at = 0;
  log.Read([&](char* into, size_t bytes) {
    const size_t count = std::min({bytes, piece, text.size() - at});
    std::copy_n(text.data() + at, count, into);
    at += count;
    return count;
  });
  return log;
}

TEST(LogImport, CountsEveryLineOnce) {
  const std::string text =
      "mb1ic2ih4oc3kh1\nnonsense\n\nmb1ic2ih5oc3kh1\r\n--mb=7 mb1ic2ih4oc3kh1\n--mb=0\n"
      "mb1ic2ih4oc3kh1\nmb1ic2id4oc3kd1\nmb1ic2ih4\nmb1ic2ih4oc3kh1";
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1} << 16}) {
    const LogImport log = Import("benchdnn", text, piece);
    EXPECT_EQ(log.num_lines(), 10);
    EXPECT_EQ(log.num_calls(), 5);
    EXPECT_EQ(log.num_cases(), 3U);
    EXPECT_EQ(log.num_refused(), 2);
    EXPECT_EQ(log.num_other_lines(), 3);
    EXPECT_EQ(log.refusals().size(), 2U);
    std::string cases;
    log.WriteCases(false, [&](const std::string& line) { cases += line; });
    EXPECT_THAT(cases, HasSubstr("\"name\": \"log.txt:1\", \"op\": \"conv2d\""));
    EXPECT_THAT(cases, HasSubstr("\"count\": 3}\n{\"name\": \"log.txt:4\""));
    EXPECT_THAT(log.Summary(), HasSubstr("first log.txt:8\n"));
  }
}

TEST(LogImport, ReadsObjectsOfSeveralLines) {
  const std::string graph =
      "{\n \"nodes\": [{\"tag\": \"CONV_FPROP\", \"inputs\": {\"X\": 1, \"W\": 2}, \"outputs\": "
      "{\"Y\": 3},\n  \"padding\": [0, 0], \"stride\": [1, 1], \"dilation\": [1, 1]}],\n"
      " \"tensors\": {\"1\": {\"data_type\": \"FLOAT\", \"dim\": [1, 2, 4, 4]},\n"
      "  \"2\": {\"data_type\": \"FLOAT\", \"dim\": [3, 2, 1, 1], \"name\": \"}{\\\"\"},\n"
      "  \"3\": {\"data_type\": \"FLOAT\", \"dim\": []}}}\n";
  const LogImport log = Import("cudnn", "before\n" + graph + "between\n" + graph + "{\n");
  EXPECT_EQ(log.num_cases(), 1U);
  EXPECT_EQ(log.num_calls(), 2);
  EXPECT_EQ(log.num_other_lines(), 2);
  EXPECT_THAT(log.Summary(), HasSubstr("1  a JSON object that is too long or does not end"));
}

// A brace in other output must not hide what follows.
TEST(LogImport, ReadsLinesBehindABraceThatStaysOpen) {
  std::vector<const Dialect*> dialects;
  for (const char* name : {"benchdnn", "cudnn"}) dialects.push_back(&FindDialect(name));
  for (const int lines : {1, 3, 60'000}) {
    std::string text = "{\n";
    for (int i = 0; i < lines; ++i) text += "mb1ic2ih4oc3kh1\n{ {\n";
    LogImport log("log.txt", dialects);
    log.Read([&text](char* into, size_t bytes) {
      const size_t count = text.copy(into, bytes);
      text.erase(0, count);
      return count;
    });
    EXPECT_EQ(log.num_calls(), lines);
    EXPECT_EQ(log.num_lines(), 1 + 2 * lines);
  }
}

TEST(LogImport, KeepsNoMoreOfALineThanItsLimit) {
  std::string text(3 * RecordReader::kMaxLineBytes, 'x');
  text += "\nmb1ic2ih4oc3kh1\n";
  const LogImport log = Import("benchdnn", text, size_t{1} << 16);
  EXPECT_EQ(log.num_cases(), 1U);
  EXPECT_THAT(log.Summary(), HasSubstr("1  a line that is too long; first log.txt:1\n"));
}

}  // namespace
}  // namespace convgrad::cli
