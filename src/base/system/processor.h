// The processors that threads run on. Must not know what the threads do.
#pragma once

#include <atomic>
#include <span>

namespace convgrad {

// The number of the processor that the calling thread is on; -1 where the system doesn't tell.
int CurrentProcessor();

// Moves the calling thread to a processor that is not among `taken` (-1: none), if it may use such
// a one; what it may use later is as before.
void LeaveProcessors(std::span<const std::atomic<int>> taken);

}  // namespace convgrad
