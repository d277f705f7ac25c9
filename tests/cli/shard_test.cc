// --shard: what each launcher's variables mean, and which are refused.
#include "cli/shards/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"

namespace convgrad::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Shard Parse(const std::string& text, const Variables& variables = {}) {
  return ParseShard(text, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// "3/8", or the code of the error.
std::string Outcome(const std::string& text, const Variables& variables = {}) {
  try {
    return NameOf(Parse(text, variables));
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    return error.code();
  }
}

std::string MessageOf(const std::string& text, const Variables& variables) {
  try {
    return "no error: " + NameOf(Parse(text, variables));
  } catch (const Error& error) {
    return error.message();
  }
}

Variables SlurmArray(int id, int count, int min, int max, int step) {
  return {{"SLURM_ARRAY_TASK_ID", std::to_string(id)},
          {"SLURM_ARRAY_TASK_COUNT", std::to_string(count)},
          {"SLURM_ARRAY_TASK_MIN", std::to_string(min)},
          {"SLURM_ARRAY_TASK_MAX", std::to_string(max)},
          {"SLURM_ARRAY_TASK_STEP", std::to_string(step)}};
}

Variables With(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

TEST(ShardTest, Numbers) {
  EXPECT_EQ(Outcome("1/1"), "1/1");
  EXPECT_EQ(Outcome("3/8"), "3/8");
  EXPECT_EQ(Parse("3/8").index, 2);
  EXPECT_EQ(Outcome("1000000/1000000"), "1000000/1000000");
  for (const char* wrong :
       {"3/2", "0/4", "1/0", "-1/4", "1/-4", "1/1000001", "/4", "1/", "/", "1.0/4", "1/4/8", "a/4",
        "99999999999999999999/4", "auto/0", "auto/-1", "auto/x", "auto/"}) {
    EXPECT_EQ(Outcome(wrong), "flag/value") << wrong;
  }
  for (const char* wrong : {"", "3", "automatic", "AUTO"}) {
    EXPECT_EQ(Outcome(wrong), "shard/syntax") << wrong;
  }
}

TEST(ShardTest, NoLauncher) {
  EXPECT_EQ(Outcome("auto"), "shard/no-launcher");
  EXPECT_EQ(Outcome("auto/4"), "shard/no-launcher");
  EXPECT_THAT(MessageOf("auto", {}), AllOf(HasSubstr("SLURM_ARRAY_TASK_ID"),
                                           HasSubstr("PBS_ARRAY_INDEX"), HasSubstr("--shard i/n")));
}

TEST(ShardTest, SlurmArray) {
  EXPECT_EQ(Outcome("auto", SlurmArray(0, 4, 0, 3, 1)), "1/4");
  EXPECT_EQ(Outcome("auto", SlurmArray(4, 4, 1, 4, 1)), "4/4");
  EXPECT_EQ(Outcome("auto", SlurmArray(5, 4, 1, 7, 2)), "3/4");
  EXPECT_EQ(Outcome("auto/4", SlurmArray(5, 4, 1, 7, 2)), "3/4");
  EXPECT_EQ(Outcome("auto/5", SlurmArray(5, 4, 1, 7, 2)), "shard/disagree");
  // --array=1,5,9 and --array=1-4,9.
  EXPECT_EQ(Outcome("auto", SlurmArray(5, 3, 1, 9, 1)), "shard/gaps");
  EXPECT_EQ(Outcome("auto", SlurmArray(9, 5, 1, 9, 1)), "shard/gaps");
  EXPECT_EQ(Outcome("auto", SlurmArray(2, 4, 1, 7, 2)), "shard/gaps");
  EXPECT_EQ(Outcome("auto", SlurmArray(0, 4, 1, 4, 1)), "shard/gaps");
  EXPECT_EQ(Outcome("auto", {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}),
            "shard/gaps");
  EXPECT_EQ(Outcome("auto", SlurmArray(1, 4, 1, 4, 0)), "shard/gaps");
  EXPECT_EQ(Outcome("auto", SlurmArray(5, 4, 1, 4, 1)), "shard/range");
}

// --array=3, --array=3-5 and --array=3-7:2 of what was --array=1-8, submitted again.
TEST(ShardTest, SomeTasksOfAnArrayAreNoWhole) {
  for (const Variables& array :
       {SlurmArray(3, 1, 3, 3, 1), SlurmArray(3, 3, 3, 5, 1), SlurmArray(5, 3, 3, 7, 2)}) {
    EXPECT_EQ(Outcome("auto", array), "shard/gaps");
    EXPECT_THAT(MessageOf("auto", array), HasSubstr("--shard i/n"));
    EXPECT_EQ(Outcome("auto/8", array), "shard/disagree");
  }
  EXPECT_EQ(Outcome("auto/3", SlurmArray(4, 3, 3, 5, 1)), "2/3");
  EXPECT_EQ(Outcome("auto", With(SlurmArray(3, 1, 3, 3, 1),
                                 {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})),
            "shard/gaps");
  EXPECT_EQ(
      Outcome("auto", {{"SGE_TASK_ID", "3"}, {"SGE_TASK_FIRST", "3"}, {"SGE_TASK_LAST", "3"}}),
      "shard/gaps");
}

TEST(ShardTest, GitLab) {
  EXPECT_EQ(Outcome("auto", {{"CI_NODE_INDEX", "1"}, {"CI_NODE_TOTAL", "3"}}), "1/3");
  EXPECT_EQ(Outcome("auto", {{"CI_NODE_INDEX", "3"}, {"CI_NODE_TOTAL", "3"}}), "3/3");
  EXPECT_EQ(Outcome("auto", {{"CI_NODE_INDEX", "4"}, {"CI_NODE_TOTAL", "3"}}), "shard/range");
  EXPECT_EQ(Outcome("auto", {{"CI_NODE_INDEX", "0"}, {"CI_NODE_TOTAL", "3"}}), "shard/gaps");
  // The variables of a job without `parallel`.
  EXPECT_EQ(Outcome("auto", {{"CI_NODE_TOTAL", "1"}}), "shard/no-launcher");
}

TEST(ShardTest, SlurmTasks) {
  const Variables tasks = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}};
  EXPECT_EQ(Outcome("auto", tasks), "3/3");
  // An array's batch script.
  const Variables array = SlurmArray(3, 4, 1, 7, 2);
  EXPECT_EQ(Outcome("auto", With(array, {{"SLURM_PROCID", "0"}})), "2/4");
  // srun inside an array: 1 x 3 + 2 = 5, from 0, of 4 x 3.
  EXPECT_EQ(Outcome("auto", With(array, tasks)), "6/12");
  EXPECT_THAT(Parse("auto", With(array, tasks)).origin,
              AllOf(HasSubstr("SLURM_ARRAY_TASK_ID=3"), HasSubstr("SLURM_PROCID=2")));
  // srun --mpi=pmi2 sets both; inside an array PMI repeats the inner pair.
  const Variables pmi = {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}};
  EXPECT_EQ(Outcome("auto", With(tasks, pmi)), "3/3");
  EXPECT_EQ(Outcome("auto", With(With(array, tasks), pmi)), "6/12");
  EXPECT_EQ(Outcome("auto", {{"SLURM_PROCID", "0"}}), "shard/no-launcher");
}

TEST(ShardTest, LaunchersThatTellTheCount) {
  const struct {
    const char *index, *count;
  } kRows[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
               {"PMI_RANK", "PMI_SIZE"},
               {"SLURM_PROCID", "SLURM_NTASKS"},
               {"GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS"},
               {"AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE"}};
  for (const auto& row : kRows) {
    EXPECT_EQ(Outcome("auto", {{row.index, "0"}, {row.count, "3"}}), "1/3") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.index, "2"}, {row.count, "3"}}), "3/3") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.index, "3"}, {row.count, "3"}}), "shard/range") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.index, "0"}, {row.count, "0"}}), "shard/no-count") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.index, "x"}, {row.count, "3"}}), "flag/value") << row.index;
    EXPECT_THAT(MessageOf("auto", {{row.index, "x"}, {row.count, "3"}}), HasSubstr(row.index));
    EXPECT_EQ(Outcome("auto", {{row.index, "-1"}, {row.count, "3"}}), "flag/value") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.count, "3"}}), "shard/no-launcher") << row.index;
    EXPECT_EQ(Outcome("auto", {{row.index, ""}, {row.count, "3"}}), "shard/no-launcher");
    EXPECT_EQ(Outcome("2/5", {{row.index, "0"}, {row.count, "3"}}), "2/5") << row.index;
  }
}

TEST(ShardTest, LaunchersThatDoNotTellTheCount) {
  for (const char* index : {"JOB_COMPLETION_INDEX", "PBS_ARRAY_INDEX"}) {
    EXPECT_EQ(Outcome("auto", {{index, "2"}}), "shard/no-count") << index;
    EXPECT_THAT(MessageOf("auto", {{index, "2"}}), HasSubstr("--shard auto/N"));
    EXPECT_EQ(Outcome("auto/8", {{index, "0"}}), "1/8") << index;
    EXPECT_EQ(Outcome("auto/8", {{index, "7"}}), "8/8") << index;
    EXPECT_EQ(Outcome("auto/8", {{index, "8"}}), "shard/range") << index;
  }
}

TEST(ShardTest, LsfArray) {
  EXPECT_EQ(Outcome("auto", {{"LSB_JOBINDEX", "1"}, {"LSB_JOBINDEX_END", "4"}}), "1/4");
  EXPECT_EQ(Outcome("auto", {{"LSB_JOBINDEX", "4"}, {"LSB_JOBINDEX_END", "4"}}), "4/4");
  EXPECT_EQ(Outcome("auto/4", {{"LSB_JOBINDEX", "4"}}), "4/4");
  EXPECT_EQ(Outcome("auto", {{"LSB_JOBINDEX", "5"}, {"LSB_JOBINDEX_END", "4"}}), "shard/range");
  // A job that is no array.
  EXPECT_EQ(Outcome("auto", {{"LSB_JOBINDEX", "0"}}), "shard/no-launcher");
}

TEST(ShardTest, SgeArray) {
  const auto sge = [](const char* id, const char* first, const char* last, const char* step) {
    return Variables{{"SGE_TASK_ID", id},
                     {"SGE_TASK_FIRST", first},
                     {"SGE_TASK_LAST", last},
                     {"SGE_TASK_STEPSIZE", step}};
  };
  EXPECT_EQ(Outcome("auto", sge("1", "1", "4", "1")), "1/4");
  EXPECT_EQ(Outcome("auto", sge("6", "2", "10", "4")), "2/3");
  EXPECT_EQ(Outcome("auto", sge("10", "2", "11", "4")), "3/3");
  EXPECT_EQ(Outcome("auto", sge("7", "2", "10", "4")), "shard/gaps");
  EXPECT_EQ(Outcome("auto", sge("undefined", "undefined", "undefined", "undefined")),
            "shard/no-launcher");
}

TEST(ShardTest, LaunchersThatDisagreeAreNamed) {
  const Variables both = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"GTEST_SHARD_INDEX", "1"},
                          {"GTEST_TOTAL_SHARDS", "3"}};
  EXPECT_EQ(Outcome("auto", both), "shard/disagree");
  EXPECT_THAT(MessageOf("auto", both), AllOf(HasSubstr("Open MPI: OMPI_COMM_WORLD_RANK=1"),
                                             HasSubstr("GoogleTest: GTEST_SHARD_INDEX=1"),
                                             HasSubstr("1 of 4"), HasSubstr("1 of 3")));
  const Variables same = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "4"},
                          {"PMI_RANK", "1"},
                          {"PMI_SIZE", "4"}};
  EXPECT_EQ(Outcome("auto", same), "2/4");
  EXPECT_EQ(Outcome("auto", With(SlurmArray(3, 8, 0, 7, 1), {{"JOB_COMPLETION_INDEX", "3"}})),
            "shard/no-count");
  EXPECT_EQ(Outcome("auto/8", With(SlurmArray(3, 8, 0, 7, 1), {{"JOB_COMPLETION_INDEX", "3"}})),
            "4/8");
  EXPECT_EQ(Outcome("auto/8", With(SlurmArray(3, 8, 0, 7, 1), {{"JOB_COMPLETION_INDEX", "4"}})),
            "shard/disagree");
}

}  // namespace
}  // namespace convgrad::cli
