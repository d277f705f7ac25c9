// The other side of Worker: the program as a process that runs the cases it is told to. Must not
// know where they come from.
#pragma once

#include <string>
#include <vector>

namespace convgrad::cli {

// The word between the program's name and the batch's own words by which a worker is started, its
// standard input the socket to the batch. Nobody else starts one.
inline constexpr const char* kWorkerWord = "--as-worker-of-batch";

// True if this process was started as one.
bool IsWorker(const std::vector<std::string>& words);

// Until the batch has no more cases. Returns the exit code.
int RunWorker(std::vector<std::string> words);

}  // namespace convgrad::cli
