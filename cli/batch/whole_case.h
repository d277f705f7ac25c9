// A case of a batch of whose images several shards have computed a part each: put together, written
// and checked as if it had been computed here.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "cli/console/console.h"
#include "cli/report/merge.h"

namespace convgrad::cli {

// The merge may take these, and is this program.
struct WholeCaseOptions {
  std::string program;
  int num_threads = 1;
  int64_t max_memory_bytes = 0;
};

struct WholeCase {
  std::string entry;  // as that of a batch of one shard; where a part went wrong, with its end
  ExitCode exit_code = ExitCode::kInternal;
};

// Reads the parts beside the reports that tell of them, and the operands. Throws data errors that
// name the part: "merge/missing", "merge/double", "merge/different-parts" and "merge/stale" by what
// the entries say, "part/..." by what the files are, "report/malformed". What goes wrong with the
// case itself is how it ends.
WholeCase PutCaseTogether(const MergedReport::SplitCase& split, const WholeCaseOptions& options,
                          const Console& console);

}  // namespace convgrad::cli
