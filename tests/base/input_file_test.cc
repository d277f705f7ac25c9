// Inputs: what may be opened, what must not make us wait, and what happens when a file changes or
// shrinks while it is in use.
#include "base/input_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "support/file_testing.h"
#include "tensor/npy.h"

namespace convgrad {
namespace {

class InputFileTest : public ::testing::Test {
 protected:
  std::string OpenCode(const std::string& path) {
    return CaughtCode([&] { InputFile::Open(path); });
  }
  void WriteLargeArray() {
    Tensor tensor(DType::kFloat32, {1 << 18});
    std::fill_n(tensor.mutable_data<float>(), tensor.num_elements(), 1.0f);
    WriteNpy(path_, tensor);
  }

  ScratchDirectory directory_;
  std::string path_ = directory_ / "input.npy";
};

TEST_F(InputFileTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(OpenCode(directory_ / "fifo"), "io/not-a-file");  // and does not wait for a writer
  EXPECT_EQ(OpenCode(directory_.path()), "io/not-a-file");
  EXPECT_EQ(OpenCode("/dev/zero"), "io/not-a-file");
  EXPECT_EQ(OpenCode(directory_ / "missing"), "io/not-found");
  EXPECT_EQ(OpenCode(""), "io/bad-path");
  EXPECT_EQ(OpenCode(std::string("a\0b", 3)), "io/bad-path");
  EXPECT_EQ(OpenCode(std::string(5000, 'a')), "io/bad-path");
  ASSERT_EQ(symlink("loop", (directory_ / "loop").c_str()), 0);
  EXPECT_EQ(OpenCode(directory_ / "loop"), "io/bad-path");
}

TEST_F(InputFileTest, MessagesNameThePath) {
  const auto error = CaughtError([&] { InputFile::Open(directory_ / "missing"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->exit_code(), ExitCode::kIo);
  EXPECT_THAT(error->message(), testing::StartsWith(directory_ / "missing: cannot be opened: "));
}

TEST_F(InputFileTest, ReadsKernelFilesThatClaimToBeEmpty) {
  const auto file = InputFile::Open("/proc/self/status");
  EXPECT_FALSE(file->size());
  char start[5] = {};
  EXPECT_EQ(file->Read(start, 4), 4);
  EXPECT_STREQ(start, "Name");
  file->CheckUnchanged();
}

TEST_F(InputFileTest, ReadsToTheEndAndNoFurther) {
  WriteBytes(path_, "12345");
  const auto file = InputFile::Open(path_);
  char bytes[9] = {};
  EXPECT_EQ(file->size(), 5);
  EXPECT_EQ(file->Read(bytes, 2), 2);
  EXPECT_EQ(file->Read(bytes + 2, 7), 3);
  EXPECT_STREQ(bytes, "12345");
}

TEST_F(InputFileTest, ReadsTheRest) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  WriteBytes(path_, text);
  const auto file = InputFile::Open(path_);
  EXPECT_EQ(file->ReadRest(0), "");
  EXPECT_EQ(file->ReadRest(3), text.substr(0, 3));
  EXPECT_EQ(file->ReadRest(200'000), text.substr(3, 200'000));
  EXPECT_EQ(file->ReadRest(), text.substr(200'003));
  EXPECT_EQ(file->ReadRest(), "");
}

TEST_F(InputFileTest, NoticesAChangedFile) {
  WriteBytes(path_, "12345");
  const auto file = InputFile::Open(path_);
  file->CheckUnchanged();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a file system's clock is coarse
  WriteBytes(path_, "54321");
  EXPECT_EQ(CaughtCode([&] { file->CheckUnchanged(); }), "io/file-changed");
}

TEST_F(InputFileTest, NoticesAChangeWhoseTimeWasSetBack) {
  WriteBytes(path_, "12345");
  const auto time = std::filesystem::last_write_time(path_);
  const auto file = InputFile::Open(path_);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  WriteBytes(path_, "54321");
  std::filesystem::last_write_time(path_, time);
  EXPECT_EQ(CaughtCode([&] { file->CheckUnchanged(); }), "io/file-changed");
}

TEST_F(InputFileTest, DoesNotMindAFileReplacedByAnother) {
  WriteBytes(path_, "12345");
  const auto file = InputFile::Open(path_);
  WriteBytes(directory_ / "other", "67890");
  std::filesystem::rename(directory_ / "other", path_);
  char byte;
  EXPECT_EQ(file->Read(&byte, 1), 1);
  EXPECT_EQ(byte, '1');
}

TEST_F(InputFileTest, SurvivesAMappedFileThatIsCut) {
  WriteLargeArray();
  const NpyArray array = ReadNpy(path_);
  ASSERT_TRUE(array.tensor.is_mapped());
  std::filesystem::resize_file(path_, 4096);
  const float* values = array.tensor.data<float>();
  double sum = 0;
  std::vector<std::thread> readers;  // several threads meet the hole at once
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      volatile float last = 0;
      for (int64_t at = 0; at < array.tensor.num_elements(); at += 512) last = values[at];
      (void)last;
    });
  }
  for (std::thread& reader : readers) reader.join();
  for (int64_t at = 0; at < array.tensor.num_elements(); ++at) sum += values[at];
  EXPECT_EQ(sum, (4096 - 128) / 4);  // zeros where the file is gone
  const auto error = CaughtError([&] { array.CheckUnchanged(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), "io/file-changed");
  EXPECT_EQ(error->exit_code(), ExitCode::kIo);
}

TEST_F(InputFileTest, CutAndRestoredIsStillNoticed) {
  WriteLargeArray();
  const NpyArray array = ReadNpy(path_);
  const auto size = std::filesystem::file_size(path_);
  const auto time = std::filesystem::last_write_time(path_);
  std::filesystem::resize_file(path_, 4096);
  volatile float last = array.tensor.data<float>()[array.tensor.num_elements() - 1];
  (void)last;
  std::filesystem::resize_file(path_, size);
  std::filesystem::last_write_time(path_, time);
  EXPECT_EQ(CaughtCode([&] { array.CheckUnchanged(); }), "io/file-changed");
}

// As where a disk fails: the file itself is what it was. A page of another file, which ends before
// it, takes the place of one of ours.
TEST_F(InputFileTest, APageThatCanNotBeReadIsNoticedThoughTheFileIsWhatItWas) {
  WriteLargeArray();
  const NpyArray array = ReadNpy(path_);
  array.CheckUnchanged();
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto inside = reinterpret_cast<uintptr_t>(array.tensor.data<float>()) + 3 * page;
  WriteBytes(directory_ / "empty", "");
  const int descriptor = open((directory_ / "empty").c_str(), O_RDONLY | O_CLOEXEC);
  void* const at = reinterpret_cast<void*>(inside / page * page);
  ASSERT_EQ(mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor, 0), at);
  close(descriptor);
  EXPECT_EQ(*static_cast<volatile const float*>(at), 0);
  EXPECT_EQ(CaughtCode([&] { array.CheckUnchanged(); }), "io/file-changed");
}

TEST_F(InputFileTest, OtherBusErrorsStayDeadly) {
  WriteLargeArray();
  const NpyArray array = ReadNpy(path_);  // the handler is in place
  EXPECT_DEATH(raise(SIGBUS), "");
}

TEST_F(InputFileTest, ReadsWhereMappingFails) {
  WriteLargeArray();
  // Descriptors of /proc can be read but not mapped: the same path a file system without mmap
  // takes.
  const int status_file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(MappedFile::Map(status_file, 4096), nullptr);
  close(status_file);
  // All slots taken: the next array is read instead.
  std::vector<std::shared_ptr<const MappedFile>> mappings;
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  while (auto mapping = MappedFile::Map(descriptor, 4096)) mappings.push_back(mapping);
  close(descriptor);
  const NpyArray array = ReadNpy(path_);
  EXPECT_EQ(array.tensor.data<float>()[array.tensor.num_elements() - 1], 1.0f);
  EXPECT_EQ(CaughtCode([&] { ReadNpy(path_, {.max_copied_bytes = 1}); }), "memory/limit");
}

// A vector load at the last element must not fault, wherever the file ends in its page.
TEST_F(InputFileTest, BytesAfterTheLastElementAreReadable) {
  WriteBytes(path_, std::string(32 * 4096, 'x'));
  const auto file = InputFile::Open(path_);
  const auto mapping = file->Map();
  ASSERT_NE(mapping, nullptr);
  for (int64_t at = mapping->size(); at < mapping->size() + 64; ++at) {
    EXPECT_EQ(mapping->data()[at], std::byte{0});
  }
}

TEST_F(InputFileTest, StandardInputMayBeAFileAtItsStart) {
  WriteLargeArray();
  const int saved = dup(STDIN_FILENO);
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  dup2(descriptor, STDIN_FILENO);
  EXPECT_TRUE(ReadNpy("-").tensor.is_mapped());
  lseek(STDIN_FILENO, 1, SEEK_SET);
  EXPECT_EQ(CaughtCode([&] { ReadNpy("-"); }), "npy/not-npy");
  dup2(saved, STDIN_FILENO);
  close(saved);
  close(descriptor);
}

TEST_F(InputFileTest, ReadsSlowNonBlockingPipes) {
  const std::string bytes = NpyHeaderBytes(DType::kFloat32, {300000}) + std::string(1200000, '\0');
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  const int saved = dup(STDIN_FILENO);
  dup2(ends[0], STDIN_FILENO);
  close(ends[0]);
  std::thread writer([&] {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t written =
          write(ends[1], bytes.data() + done, std::min<size_t>(7001, bytes.size() - done));
      if (written > 0) done += static_cast<size_t>(written);
    }
    close(ends[1]);
  });
  EXPECT_EQ(ReadNpy("-").tensor.num_elements(), 300000);
  writer.join();
  dup2(saved, STDIN_FILENO);
  close(saved);
}

}  // namespace
}  // namespace convgrad
