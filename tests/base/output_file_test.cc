// Outputs: whole or not at all, whatever goes wrong and whoever looks on.
#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/file_testing.h"

namespace convgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsEmpty;

class OutputFileTest : public ::testing::Test {
 protected:
  std::string OpenCode(const std::string& path, bool no_clobber = false) {
    return CaughtCode([&] { CheckOutputPath(path, {.no_clobber = no_clobber}); });
  }

  ScratchDirectory directory_;
  std::string path_ = directory_ / "out";
};

// Runs `action` in a child process; returns how that ended, as waitpid() says. Cleaning happens
// once per process and directory, so its tests need one too.
int StatusInChild(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// A process number that no process has.
pid_t DeadProcess() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

std::string TemporaryName(const std::string& name, pid_t pid) {
  return "." + name + ".tmp-" + std::to_string(pid) + "-0123456789abcdef";
}

TEST_F(OutputFileTest, AppearsOnlyWhenCommitted) {
  WriteBytes(path_, "old");
  {
    OutputFile file(path_);
    file.Write("new");
    EXPECT_EQ(ReadBytes(path_), "old");
    file.Commit();
    EXPECT_EQ(ReadBytes(path_), "new");
  }
  EXPECT_EQ(ReadBytes(path_), "new");
  EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
}

TEST_F(OutputFileTest, AbandonedLeavesNothing) {
  WriteBytes(path_, "old");
  {
    OutputFile file(path_);
    file.Write("new");
    OutputFile moved(std::move(file));
    moved.Write("er");
    EXPECT_EQ(directory_.Entries().size(), 2u);
  }
  EXPECT_EQ(ReadBytes(path_), "old");
  EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
}

TEST_F(OutputFileTest, ChecksThePathWhenOpened) {
  std::filesystem::create_directory(directory_ / "folder");
  EXPECT_EQ(OpenCode(directory_ / "folder"), "io/not-a-file");
  EXPECT_EQ(OpenCode(directory_ / "folder/"), "io/not-a-file");
  EXPECT_EQ(OpenCode(directory_ / "new/"), "io/not-a-file");
  EXPECT_EQ(OpenCode(directory_ / "missing/out"), "io/no-directory");
  WriteBytes(path_, "");
  EXPECT_EQ(OpenCode(directory_ / "out/out"), "io/no-directory");
  EXPECT_EQ(OpenCode(""), "io/bad-path");
  EXPECT_EQ(OpenCode(directory_ / std::string(300, 'a')), "io/bad-path");
  EXPECT_EQ(OpenCode("/proc/out"), "io/not-found");  // no file can be made there, even by root
  EXPECT_EQ(OpenCode(directory_ / "fine"), "");
  EXPECT_THAT(directory_.Entries(), ElementsAre("folder", "out"));
}

TEST_F(OutputFileTest, TheLongestNamesWork) {
  const std::string name(255, 'n');
  WriteTextFile(directory_ / name, "text");
  EXPECT_THAT(directory_.Entries(), ElementsAre(name));
}

TEST_F(OutputFileTest, NoClobberRefusesEarlyAndLate) {
  WriteTextFile(path_, "first", {.no_clobber = true});
  EXPECT_EQ(OpenCode(path_, true), "io/exists");
  OutputFile file(directory_ / "late", {.no_clobber = true});
  file.Write("ours");
  WriteBytes(directory_ / "late", "theirs");
  EXPECT_EQ(CaughtCode([&] { file.Commit(); }), "io/exists");
  EXPECT_EQ(ReadBytes(directory_ / "late"), "theirs");
}

TEST_F(OutputFileTest, KeepsSymbolicLinks) {
  std::filesystem::create_directory(directory_ / "elsewhere");
  ASSERT_EQ(symlink("elsewhere/target", path_.c_str()), 0);
  WriteTextFile(path_, "through a dangling link");
  WriteTextFile(path_, "replaced");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(ReadBytes(directory_ / "elsewhere/target"), "replaced");
  ASSERT_EQ(symlink("loop", (directory_ / "loop").c_str()), 0);
  EXPECT_EQ(OpenCode(directory_ / "loop"), "io/bad-path");
}

TEST_F(OutputFileTest, AHardLinkKeepsTheOldBytes) {
  WriteBytes(path_, "old");
  std::filesystem::create_hard_link(path_, directory_ / "second");
  WriteTextFile(path_, "new");
  EXPECT_EQ(ReadBytes(directory_ / "second"), "old");
}

TEST_F(OutputFileTest, ModeFollowsTheUmask) {
  for (const mode_t mask : {022, 077, 002}) {
    const mode_t saved = umask(mask);
    WriteTextFile(path_, "text");
    umask(saved);
    struct stat status;
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
  }
}

TEST_F(OutputFileTest, AFullDeviceIsAnError) {
  const auto error = CaughtError([] { WriteTextFile("/dev/full", "text"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), "io/no-space");
  EXPECT_EQ(error->exit_code(), ExitCode::kIo);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  WriteTextFile("/dev/null", "text");
}

TEST_F(OutputFileTest, AFileSizeLimitLeavesTheOldFile) {
  WriteBytes(path_, "old");
  for (const bool reserve : {true, false}) {
    const int status = StatusInChild([&] {
      PrepareStandardStreams();
      const struct rlimit limit = {4096, 4096};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string text(100000, 'x');
      const std::string code = CaughtCode([&] {
        OutputFile file(path_);
        if (reserve) file.Reserve(100000);
        file.Write(text);
        file.Commit();
      });
      _exit(code == "io/too-large" ? 0 : 1);
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(ReadBytes(path_), "old");
    EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
  }
}

TEST_F(OutputFileTest, ABrokenPipeIsAnErrorNotASignal) {
  const int status = StatusInChild([] {
    PrepareStandardStreams();
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    const std::string code = CaughtCode([] {
      OutputFile file("-");
      file.Write("text");
    });
    _exit(code == "io/broken-pipe" ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(OutputFileTest, AClosedStandardOutputIsAnErrorAndNeverAnotherFile) {
  const int status = StatusInChild([&] {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    PrepareStandardStreams();
    OutputFile file(path_);
    const std::string code = CaughtCode([] { WriteTextFile("-", "text"); });
    file.Write("kept apart");
    file.Commit();
    _exit(code == "io/closed" ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadBytes(path_), "kept apart");
}

TEST_F(OutputFileTest, ANamedPipeWithoutAReaderDoesNotHang) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(OpenCode(path_), "io/not-a-file");
}

TEST_F(OutputFileTest, RemovesWhatKilledProcessesLeft) {
  const pid_t dead = DeadProcess();
  WriteBytes(directory_ / TemporaryName("out", dead), "left");
  WriteBytes(directory_ / TemporaryName("other.npy", dead), "left");
  EXPECT_EQ(StatusInChild([&] { WriteTextFile(path_, "text"); }), 0);
  EXPECT_THAT(directory_.Entries(), ElementsAre("out"));
}

TEST_F(OutputFileTest, KeepsWhatMayStillBeWrittenAndWhatIsNotOurs) {
  const pid_t dead = DeadProcess();
  std::vector<std::string> kept = {TemporaryName("alive", getppid()),
                                   "out.tmp-" + std::to_string(dead) + "-0123",
                                   ".out.tmp-" + std::to_string(dead), ".out.tmp-x-0123",
                                   ".out.tmp-" + std::to_string(dead) + "-A B"};
  // Ours have sixteen lower-case hexadecimal digits.
  for (const char* tail : {"a", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF",
                           "0123456789abcdeg", "0123456789abcdef.npy"}) {
    kept.push_back(".notes.tmp-" + std::to_string(dead) + "-" + tail);
  }
  kept.push_back(".padded.tmp-0" + std::to_string(dead) + "-0123456789abcdef");
  for (const std::string& name : kept) WriteBytes(directory_ / name, "");
  // A dead number here, but locked by its writer on another machine.
  kept.push_back(TemporaryName("locked", dead));
  WriteBytes(directory_ / kept.back(), "");
  const FileDescriptor locked(open((directory_ / kept.back()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(locked.get(), LOCK_EX), 0);
  kept.push_back("out");
  EXPECT_EQ(StatusInChild([&] { WriteTextFile(path_, "text"); }), 0);
  EXPECT_THAT(directory_.Entries(), testing::UnorderedElementsAreArray(kept));
}

// Processes of several containers that share a directory may have one number.
TEST_F(OutputFileTest, RemovesWhatAnEndedProcessLeftUnlessAnotherOfItsNumberWritesIt) {
  const pid_t ended = DeadProcess();
  const std::string left = TemporaryName("left", ended), locked = TemporaryName("locked", ended);
  const std::string notes = ".notes.tmp-" + std::to_string(ended) + "-a";
  for (const std::string& name : {left, locked, notes}) WriteBytes(directory_ / name, "");
  const FileDescriptor lock(open((directory_ / locked).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  RemoveTemporaryFilesOf(ended, directory_.path());
  EXPECT_THAT(directory_.Entries(), testing::UnorderedElementsAre(locked, notes));
}

TEST_F(OutputFileTest, KeepsWhatAnotherUserLeft) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  constexpr uid_t kOther = 65534;
  const std::string theirs = TemporaryName("theirs", DeadProcess());
  WriteBytes(directory_ / theirs, "");
  ASSERT_EQ(chown((directory_ / theirs).c_str(), kOther, kOther), 0);
  EXPECT_EQ(StatusInChild([&] { WriteTextFile(path_, "text"); }), 0);
  EXPECT_THAT(directory_.Entries(), testing::UnorderedElementsAre(theirs, "out"));
}

// Nothing is forbidden to root, so there the test is somebody else.
TEST_F(OutputFileTest, KeepsAWriteProtectedFile) {
  WriteBytes(path_, "old");
  std::filesystem::permissions(path_, std::filesystem::perms{0444});
  std::filesystem::permissions(directory_.path(), std::filesystem::perms{0777});
  const int status = StatusInChild([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(2);
    _exit(OpenCode(path_) == "io/permission" ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ReadBytes(path_), "old");
}

TEST_F(OutputFileTest, ASignalHandlerCanRemoveUnfinishedFiles) {
  OutputFile first(path_), second(directory_ / "second");
  EXPECT_EQ(directory_.Entries().size(), 2u);
  RemoveTemporaryFiles();
  EXPECT_THAT(directory_.Entries(), IsEmpty());
  EXPECT_EQ(CaughtCode([&] { first.Commit(); }), "io/not-found");
}

TEST_F(OutputFileTest, ManyAtOnce) {
  std::vector<OutputFile> files;
  for (int at = 0; at < 260; ++at) files.emplace_back(directory_ / std::to_string(at));
  for (OutputFile& file : files) {
    file.Write("text");
    file.Commit();
  }
  EXPECT_EQ(directory_.Entries().size(), 260u);
}

std::string ClashCode(const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs) {
  std::vector<NamedPath> named_inputs, named_outputs;
  for (const std::string& path : inputs) named_inputs.push_back({"--input", path});
  for (const std::string& path : outputs) named_outputs.push_back({"--output", path});
  const auto error = CaughtError([&] { CheckDistinctFiles(named_inputs, named_outputs); });
  if (!error) return "";
  EXPECT_EQ(error->exit_code(), ExitCode::kUsage);
  return error->code();
}

TEST_F(OutputFileTest, OutputsAreNoInputs) {
  WriteBytes(directory_ / "in", "");
  std::filesystem::create_hard_link(directory_ / "in", directory_ / "hard");
  ASSERT_EQ(symlink("in", (directory_ / "soft").c_str()), 0);
  ASSERT_EQ(symlink(".", (directory_ / "here").c_str()), 0);
  for (const char* same : {"in", "hard", "soft", "here/in", "./in"}) {
    EXPECT_EQ(ClashCode({directory_ / "in"}, {directory_ / same}), "io/same-file") << same;
  }
  EXPECT_EQ(ClashCode({directory_ / "in", directory_ / "in"}, {path_}), "");
  EXPECT_EQ(ClashCode({"-", "/dev/null"}, {"-", "/dev/null"}), "");
}

TEST_F(OutputFileTest, OutputsAreDistinctEvenBeforeTheyExist) {
  ASSERT_EQ(symlink(".", (directory_ / "here").c_str()), 0);
  ASSERT_EQ(symlink("out", (directory_ / "dangling").c_str()), 0);
  EXPECT_EQ(ClashCode({}, {path_, directory_ / "here/out"}), "io/same-file");
  EXPECT_EQ(ClashCode({}, {path_, directory_ / "dangling"}), "io/same-file");
  EXPECT_EQ(ClashCode({}, {path_, directory_ / "out2"}), "");
  EXPECT_EQ(ClashCode({path_}, {directory_ / "here/out"}), "io/same-file");
}

TEST_F(OutputFileTest, RedirectedStreamsAreFilesToo) {
  WriteBytes(path_, "");
  const int status = StatusInChild([&] {
    const int descriptor = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    dup2(descriptor, STDIN_FILENO);
    dup2(descriptor, STDOUT_FILENO);
    const bool right = ClashCode({"-"}, {path_}) == "io/same-file" &&
                       ClashCode({path_}, {"-"}) == "io/same-file" &&
                       ClashCode({}, {"-", path_}) == "io/same-file" &&
                       ClashCode({directory_ / "other"}, {"-"}).empty();
    _exit(right ? 0 : 1);
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace convgrad
