// How a batch runs, by its flags. The process that runs it and the workers that it starts read the
// same ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/case/golden_recorder.h"
#include "cli/case/images.h"
#include "cli/options/arguments.h"

namespace convgrad::cli {

struct BatchOptions {
  int num_threads = 1;           // in all
  int jobs = 1;                  // cases read, computed or written at the same time
  int64_t max_memory_bytes = 0;  // of all cases in work together
  bool fail_fast = false;
  bool isolate = false;           // each case in a process of its own
  std::optional<double> timeout;  // seconds that a case may take
  bool has_hashes = true;
  bool has_entries = false;           // each case's entry is wanted somewhere
  std::optional<std::string> events;  // the journal
  bool resume = false;
  std::optional<RecordOptions> record;  // for cases that name a golden file
  std::optional<std::string> pending;   // directory for results whose golden file fails
  bool make_directories = false;        // of outputs and recorded goldens
  bool require_golden = false;          // a case that names none fails
  // --split-images, so the report's path, beside which parts of cases are written.
  std::optional<std::string> split_beside;
  std::vector<bool> of_shard;           // which of the selected cases to run; empty: all
  std::map<int64_t, PartOfCase> parts;  // of those, what runs of cases of which only a part does

  bool Runs(int64_t index) const { return of_shard.empty() || of_shard[index]; }
};

// Throws usage errors.
BatchOptions ParseBatchOptions(const Arguments& arguments);

}  // namespace convgrad::cli
