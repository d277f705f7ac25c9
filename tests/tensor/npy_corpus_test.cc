// Hostile and odd .npy files: each case of the corpus gets its verdict from a file and from a pipe,
// and no truncation or flipped bit of a good file does more than raise an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <thread>

#include "support/file_testing.h"
#include "tensor/npy.h"

namespace convgrad {
namespace {

struct Verdict {
  bool accepted = false;
  std::string code;
  std::string message;
};

Verdict Judge(const std::string& path, const NpyReadOptions& options) {
  const std::optional<Error> error = CaughtError([&] { ReadNpy(path, options); });
  if (!error) return {true, "", ""};
  EXPECT_EQ(error->exit_code(), ExitCode::kData) << error->message();
  return {false, error->code(), error->message()};
}

// The same from standard input, a pipe that another thread fills.
Verdict JudgeFromPipe(const std::string& bytes, const NpyReadOptions& options) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::signal(SIGPIPE, SIG_IGN);
  std::thread writer([&bytes, sink = ends[1]] {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t written = write(sink, bytes.data() + done, bytes.size() - done);
      if (written <= 0) break;  // the reader has seen enough
      done += static_cast<size_t>(written);
    }
    close(sink);
  });
  const int saved = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  close(ends[0]);
  const Verdict verdict = Judge("-", options);
  dup2(saved, STDIN_FILENO);
  close(saved);
  writer.join();
  return verdict;
}

// The file under trial lies in memory: thousands are written.
class CorpusTest : public testing::Test {
 protected:
  CorpusTest() : file_(memfd_create("case.npy", MFD_CLOEXEC)) {}

  FileDescriptor file_;
  std::string path_ = "/proc/self/fd/" + std::to_string(file_.get());
  NpyReadOptions as_bfloat16_ = {.view_as = DType::kBFloat16};
};

TEST_F(CorpusTest, EveryCaseGetsItsVerdict) {
  const auto rows = ReadTable("npy_corpus.tsv", 4);
  EXPECT_EQ(rows.size(), 176u);
  for (const auto& row : rows) {
    SCOPED_TRACE(row[0]);
    const std::string bytes = Unescape(row[3]);
    WriteBytes(path_, bytes);
    const Verdict from_file = Judge(path_, as_bfloat16_);
    const Verdict from_pipe = JudgeFromPipe(bytes, as_bfloat16_);
    EXPECT_EQ(from_file.accepted, row[1] == "accept") << from_file.message;
    EXPECT_EQ(from_pipe.accepted, row[1] == "accept") << from_pipe.message;
    if (row[1] == "accept") continue;
    EXPECT_EQ(from_file.code, row[2]) << from_file.message;
    EXPECT_EQ(from_pipe.code, row[2]) << from_pipe.message;
    EXPECT_THAT(from_file.message, testing::StartsWith(path_ + ": " + row[2] + " at byte "));
    EXPECT_EQ(from_file.message.find('\n'), std::string::npos);
  }
}

TEST_F(CorpusTest, TwoByteElementsNeedATypeToBeNamed) {
  const std::set<std::string> two_byte = {"E_V2",    "E_bar_V2", "E_eq_V2",
                                          "E_lt_V2", "E_lt_u2",  "E_lt_i2"};
  for (const auto& row : ReadTable("npy_corpus.tsv", 4)) {
    if (row[1] != "accept") continue;
    SCOPED_TRACE(row[0]);
    WriteBytes(path_, Unescape(row[3]));
    const Verdict verdict = Judge(path_, {});
    EXPECT_EQ(verdict.code, two_byte.count(row[0]) != 0 ? "npy/dtype-ambiguous" : "");
    if (two_byte.count(row[0]) == 0) continue;
    EXPECT_THAT(verdict.message, testing::HasSubstr("--dtype"));
    EXPECT_EQ(Judge(path_, {.view_as = DType::kFloat32}).code, "npy/dtype-ambiguous");
    EXPECT_EQ(ReadNpy(path_, {.view_as = DType::kFloat16}).tensor.dtype(), DType::kFloat16);
  }
}

TEST_F(CorpusTest, AcceptedFloatsHaveTheirValues) {
  for (const auto& row : ReadTable("npy_corpus.tsv", 4)) {
    if (row[1] != "accept" || row[0] == "A32_text_mode_cr_lf_in_data") continue;
    SCOPED_TRACE(row[0]);
    WriteBytes(path_, Unescape(row[3]));
    const NpyArray array = ReadNpy(path_, as_bfloat16_);
    if (array.tensor.dtype() != DType::kFloat32 || array.header.swapped) continue;
    std::vector<float> expected = {0, 1, 2, 3, 4, 5};
    if (array.header.fortran_order) expected = {0, 2, 4, 1, 3, 5};
    expected.resize(array.tensor.num_elements());
    const float* values = array.tensor.data<float>();
    EXPECT_THAT(std::vector<float>(values, values + expected.size()),
                testing::ElementsAreArray(expected));
  }
}

TEST_F(CorpusTest, OddSpellingsWarn) {
  std::set<std::string> warned;
  for (const auto& row : ReadTable("npy_corpus.tsv", 4)) {
    if (row[1] != "accept") continue;
    WriteBytes(path_, Unescape(row[3]));
    if (!ReadNpy(path_, as_bfloat16_).header.warnings.empty()) warned.insert(row[0]);
  }
  EXPECT_THAT(warned,
              testing::ElementsAre("B14_py2_L_suffix", "E_bar_f4", "E_eq_f4", "E_noorder_f4"));
}

TEST_F(CorpusTest, TrailingBytesAreAcceptedOnRequest) {
  for (const auto& row : ReadTable("npy_corpus.tsv", 4)) {
    if (row[2] != "npy/trailing-data") continue;
    SCOPED_TRACE(row[0]);
    WriteBytes(path_, Unescape(row[3]));
    EXPECT_TRUE(Judge(path_, {.allow_trailing = true}).accepted);
    EXPECT_TRUE(JudgeFromPipe(Unescape(row[3]), {.allow_trailing = true}).accepted);
  }
}

TEST_F(CorpusTest, EveryTruncationIsAnError) {
  for (const auto& row : ReadTable("npy_corpus.tsv", 4)) {
    if (row[1] != "accept") continue;
    const std::string bytes = Unescape(row[3]);
    const NpyArray whole = (WriteBytes(path_, bytes), ReadNpy(path_, as_bfloat16_));
    for (size_t size = 0; size < bytes.size(); ++size) {
      WriteBytes(path_, bytes.substr(0, size));
      const std::string code = Judge(path_, as_bfloat16_).code;
      const bool in_header = size < static_cast<size_t>(whole.header.data_offset);
      EXPECT_EQ(code, size < 6    ? "npy/not-npy"
                      : in_header ? "npy/truncated-header"
                                  : "npy/short-data")
          << row[0] << " cut to " << size << " bytes";
    }
  }
}

// A flipped bit of the header is an error, except where NumPy reads the same: '<' as another byte
// order, and the last comma as a form feed.
TEST_F(CorpusTest, EveryFlippedHeaderBitIsAnErrorOrMeansWhatNumPySays) {
  for (const char* name :
       {"A00_valid", "A13_version_2_0_valid", "A14_version_3_0_valid", "B42_fortran_True"}) {
    const auto rows = ReadTable("npy_corpus.tsv", 4);
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r[0] == name; });
    ASSERT_NE(row, rows.end());
    const std::string good = Unescape((*row)[3]);
    for (size_t bit = 0; bit < 8 * 128; ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      WriteBytes(path_, bytes);
      if (!Judge(path_, as_bfloat16_).accepted) continue;
      const NpyArray array = ReadNpy(path_, as_bfloat16_);
      EXPECT_THAT(array.header.descr, testing::AnyOf("<f4", ">f4", "|f4", "=f4"))
          << name << " bit " << bit;
      EXPECT_EQ(array.header.swapped, array.header.descr == ">f4");
      EXPECT_EQ(array.header.fortran_order, name == std::string("B42_fortran_True"));
      EXPECT_EQ(array.tensor.shape(), Shape({2, 3})) << name << " bit " << bit;
    }
  }
}

TEST_F(CorpusTest, AStreamTakesNoMoreMemoryThanItBrings) {
  std::string bytes = NpyHeaderBytes(DType::kFloat32, {int64_t{1} << 30});  // 4 GiB claimed
  bytes.append(5 << 20, 'x');
  const NpyReadOptions limited = {.max_copied_bytes = 16 << 20};
  EXPECT_EQ(JudgeFromPipe(bytes, limited).code, "npy/short-data");
}

}  // namespace
}  // namespace convgrad
