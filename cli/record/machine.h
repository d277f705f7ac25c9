// Facts about the machine and the build, for reports and `info`. Cheap: a few small files of the
// system, nothing measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convgrad::cli {

struct Cache {
  std::string type;  // "Data", "Instruction", "Unified"
  int level = 0;
  int64_t bytes = 0;
  int num_sharing = 0;  // logical CPUs that share one
};

struct Machine {
  std::string host;
  std::string cpu_model;
  int num_cpus = 0;          // of the machine
  int usable_cpus = 0;       // that this process may use
  std::string allowed_cpus;  // on which it may run, as a list like "0-3,8"
  int64_t memory_bytes = 0;
  int64_t available_memory_bytes = 0;
  std::vector<Cache> caches;  // as the first CPU sees them
  std::vector<double> load;   // averages over 1, 5 and 15 minutes
};

Machine DescribeMachine();

// Seconds precision with the local offset: "2026-08-01T12:00:00+02:00".
std::string CurrentDate();
std::string CurrentFolder();
// The most memory this process ever had resident.
int64_t PeakResidentBytes();

// How this program was built.
struct Build {
  const char* version;
  const char* commit;  // with "-dirty" where the sources differed from it
  const char* type;
  const char* compiler;
};
extern const Build kBuild;

}  // namespace convgrad::cli
