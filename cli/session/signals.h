// Requests from outside to end. The first lets the work stop in order: temporary files go, the
// report is written; the second ends the process at once.
#pragma once

namespace convgrad::cli {

// For SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless the parent had them ignored.
void InstallSignalHandlers();

// The signal that came, or 0.
int CaughtSignal();

// Ends the process as the signal would have done, so that the parent sees it.
[[noreturn]] void EndBySignal(int signal);

}  // namespace convgrad::cli
