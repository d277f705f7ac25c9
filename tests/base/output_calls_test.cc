// Outputs and the system calls that make them durable and keep others' hands off them: which are
// made, in which order, and what becomes of an output where they fail. This program has functions
// in place of the system's own, so it tests nothing else.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/deadline.h"
#include "base/output_file.h"
#include "base/parallel.h"
#include "support/file_testing.h"

namespace convgrad {
namespace {

using ::testing::ElementsAre;
using testing::IsEmpty;

// The calls below log here what they did, and find what they shall do.
struct Calls {
  std::vector<std::string> log;
  int file_sync_error = 0, directory_sync_error = 0;  // error numbers; 0: as the system does
  int file_sync_interrupts = 0, directory_sync_interrupts = 0;
  int num_locked_by_others = 0;  // of the next locks
  int num_locks = 0;
  bool has_no_links = false;  // as some file systems say of every file
  int status_error = 0;
};

Calls calls;

bool IsTemporaryFile(int descriptor) {
  char target[PATH_MAX] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return readlink(link.c_str(), target, sizeof(target) - 1) > 0 &&
         std::string_view(target).find(".tmp-") != std::string_view::npos;
}

int Fail(int error) {
  errno = error;
  return -1;
}

int64_t SizeOf(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 ? int64_t{status.st_size} : -1;
}

}  // namespace
}  // namespace convgrad

extern "C" {

int fsync(int descriptor) {
  using convgrad::calls;
  const bool is_file = convgrad::IsTemporaryFile(descriptor);
  calls.log.push_back(is_file ? "file of " + std::to_string(convgrad::SizeOf(descriptor)) +
                                    " bytes durable"
                              : "directory durable");
  int& interrupts = is_file ? calls.file_sync_interrupts : calls.directory_sync_interrupts;
  if (interrupts > 0) {
    --interrupts;
    return convgrad::Fail(EINTR);
  }
  const int error = is_file ? calls.file_sync_error : calls.directory_sync_error;
  return error != 0 ? convgrad::Fail(error) : static_cast<int>(syscall(SYS_fsync, descriptor));
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned flags) noexcept {
  convgrad::calls.log.emplace_back("in place");
  return static_cast<int>(syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}

int flock(int descriptor, int operation) noexcept {
  using convgrad::calls;
  ++calls.num_locks;
  if (calls.num_locked_by_others > 0) {
    --calls.num_locked_by_others;
    return convgrad::Fail(EWOULDBLOCK);
  }
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

int fstat(int descriptor, struct stat* status) noexcept {
  using convgrad::calls;
  if (calls.status_error != 0 && convgrad::IsTemporaryFile(descriptor)) {
    return convgrad::Fail(calls.status_error);
  }
  const int result = fstatat(descriptor, "", status, AT_EMPTY_PATH);
  if (calls.has_no_links) status->st_nlink = 0;
  return result;
}

}  // extern "C"

namespace convgrad {
namespace {

constexpr int kFarMoreTries = 100'000;

class OutputCallsTest : public ::testing::Test {
 protected:
  OutputCallsTest() { calls = {}; }
  ~OutputCallsTest() override { calls = {}; }

  std::string WriteCode() {
    return CaughtCode([this] { WriteTextFile(path_, "text"); });
  }

  ScratchDirectory directory_;
  std::string path_ = directory_ / "out";
};

// The data before the name that shows them, and the name before anyone is told.
TEST_F(OutputCallsTest, DataAreDurableBeforeTheNameAndTheNameAtTheEnd) {
  EXPECT_EQ(WriteCode(), "");
  EXPECT_THAT(calls.log, ElementsAre("file of 4 bytes durable", "in place", "directory durable"));
}

TEST_F(OutputCallsTest, DataThatAreNotDurableStayOutOfPlace) {
  WriteBytes(path_, "old");
  calls.file_sync_error = EIO;
  EXPECT_EQ(WriteCode(), "io/failed");
  EXPECT_THAT(calls.log, ElementsAre("file of 4 bytes durable"));  // never twice
  EXPECT_EQ(ReadBytes(path_), "old");
  EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
}

TEST_F(OutputCallsTest, ANameThatIsNotDurableIsAnError) {
  calls.directory_sync_error = EIO;
  EXPECT_EQ(WriteCode(), "io/failed");
  calls.directory_sync_error = EINVAL;  // a file system that can't
  EXPECT_EQ(WriteCode(), "");
}

TEST_F(OutputCallsTest, ASignalMakesNothingLessDurable) {
  calls.file_sync_interrupts = calls.directory_sync_interrupts = 2;
  EXPECT_EQ(WriteCode(), "");
  EXPECT_EQ(calls.log.size(), 7u);  // each sync three times
  EXPECT_EQ(calls.log.back(), "directory durable");
  EXPECT_EQ(ReadBytes(path_), "text");
}

TEST_F(OutputCallsTest, AFileThatAnotherCleaningHoldsIsLeftToIt) {
  calls.num_locked_by_others = 3;
  EXPECT_EQ(WriteCode(), "");
  EXPECT_EQ(calls.num_locks, 4);
  EXPECT_EQ(ReadBytes(path_), "text");
  EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
}

TEST_F(OutputCallsTest, AFileSystemThatLosesFilesIsAnError) {
  calls.num_locked_by_others = kFarMoreTries;
  EXPECT_EQ(WriteCode(), "io/failed");
  calls = {};
  calls.has_no_links = true;
  EXPECT_EQ(WriteCode(), "io/failed");
  calls = {};
  calls.status_error = ENOSPC;
  EXPECT_EQ(WriteCode(), "io/no-space");
  EXPECT_EQ(calls.num_locks, 1);
  EXPECT_THAT(directory_.Entries(), IsEmpty());
}

TEST_F(OutputCallsTest, WhoMustEndTriesNoMore) {
  calls.num_locked_by_others = kFarMoreTries;
  const Deadline past = std::chrono::steady_clock::now();
  const ScopedDeadline deadline(&past);
  EXPECT_THROW(WriteTextFile(path_, "text"), Stopped);
  EXPECT_EQ(calls.num_locks, 1);
  EXPECT_THAT(directory_.Entries(), IsEmpty());
}

}  // namespace
}  // namespace convgrad
