// Limits of control groups, read from made-up files of the system.
#include "base/system/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "support/file_testing.h"

namespace convgrad {
namespace {

constexpr int64_t kMegabyte = 1 << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int kNoQuota = std::numeric_limits<int>::max();

class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() {
    files_.membership = scratch_ / "membership";
    files_.root = scratch_ / "root";
  }

  void Write(const std::string& folder, const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(files_.root + folder);
    WriteBytes(files_.root + folder + "/" + name, text + "\n");
  }
  void SetMemory2(const std::string& folder, const std::string& limit, int64_t used,
                  int64_t cache) const {
    Write(folder, "memory.max", limit);
    Write(folder, "memory.current", std::to_string(used));
    Write(folder, "memory.stat", "anon 7\ninactive_file " + std::to_string(cache));
  }
  void SetMemory1(const std::string& folder, int64_t limit, int64_t used, int64_t cache) const {
    Write(folder, "memory.limit_in_bytes", std::to_string(limit));
    Write(folder, "memory.usage_in_bytes", std::to_string(used));
    Write(folder, "memory.stat", "inactive_file 5\ntotal_inactive_file " + std::to_string(cache));
  }
  void SetQuota1(const std::string& folder, int64_t quota) const {
    Write(folder, "cpu.cfs_quota_us", std::to_string(quota));
    Write(folder, "cpu.cfs_period_us", "100000");
  }
  void SetMembership(const std::string& text) const { WriteBytes(files_.membership, text); }

  ScratchDirectory scratch_;
  CgroupFiles files_;
};

TEST_F(CgroupTest, NothingIsNoLimit) {
  EXPECT_EQ(CgroupMemory(files_), kNoLimit);
  EXPECT_EQ(CgroupCpus(files_), kNoQuota);
  SetMembership("0::/\n4:memory:/\nno line of its kind\n");
  SetMemory2("", "max", kMegabyte, 0);
  Write("", "cpu.max", "max 100000");
  EXPECT_EQ(CgroupMemory(files_), kNoLimit);
  EXPECT_EQ(CgroupCpus(files_), kNoQuota);
}

TEST_F(CgroupTest, TheNarrowestOfVersion2Counts) {
  SetMembership("0::/outer/inner\n");
  SetMemory2("/outer", std::to_string(8 * kMegabyte), 5 * kMegabyte, 2 * kMegabyte);
  SetMemory2("/outer/inner", std::to_string(64 * kMegabyte), kMegabyte, 0);
  Write("/outer", "cpu.max", "400000 100000");
  Write("/outer/inner", "cpu.max", "150000 100000");
  EXPECT_EQ(CgroupMemory(files_), 5 * kMegabyte);
  EXPECT_EQ(CgroupCpus(files_), 2);
}

TEST_F(CgroupTest, Version1HasATreeForEachController) {
  SetMembership("9:cpuset:/c\n5:cpu,cpuacct:/a/b\n4:memory:/m/n\n1:name=systemd:/s\n");
  SetMemory1("/memory/m", 16 * kMegabyte, 6 * kMegabyte, kMegabyte);
  SetMemory1("/memory/m/n", kNoLimit / 4096 * 4096, 6 * kMegabyte, 0);
  SetMemory1("/memory/other", kMegabyte, 0, 0);
  SetQuota1("/cpu/a", 250'000);
  SetQuota1("/cpu/a/b", -1);
  SetQuota1("/cpuset/c", 100'000);
  EXPECT_EQ(CgroupMemory(files_), 11 * kMegabyte);
  EXPECT_EQ(CgroupCpus(files_), 3);
}

TEST_F(CgroupTest, AControllersTreeMayBeNamedByAllThatShareIt) {
  SetMembership("5:cpuacct,cpu:/a\n");
  SetQuota1("/cpuacct,cpu/a", 50'000);
  EXPECT_EQ(CgroupCpus(files_), 1);
}

// The path is the machine's, the tree only the container's.
TEST_F(CgroupTest, InAContainerTheRootCounts) {
  SetMembership("5:cpu:/docker/0123\n4:memory:/docker/0123\n0::/docker/0123\n");
  SetMemory1("/memory", 16 * kMegabyte, kMegabyte, 0);
  SetQuota1("/cpu", 200'000);
  EXPECT_EQ(CgroupMemory(files_), 15 * kMegabyte);
  EXPECT_EQ(CgroupCpus(files_), 2);
}

// A limit below what is taken leaves nothing.
TEST_F(CgroupTest, BothVersionsAtOnceAreBothRead) {
  SetMembership("4:memory:/m\n0::/n\n");
  SetMemory1("/memory/m", 16 * kMegabyte, kMegabyte, 0);
  SetMemory2("/n", std::to_string(8 * kMegabyte), 9 * kMegabyte, 0);
  EXPECT_EQ(CgroupMemory(files_), 0);
  SetMemory2("/n", std::to_string(80 * kMegabyte), kMegabyte, 0);
  EXPECT_EQ(CgroupMemory(files_), 15 * kMegabyte);
}

}  // namespace
}  // namespace convgrad
