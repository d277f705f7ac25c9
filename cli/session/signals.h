// Requests from outside to end. The first lets the work stop in order: temporary files go, the
// report is written; the second ends the process at once.
#pragma once

#include <csignal>

namespace convgrad::cli {

// SIGUSR1, SIGUSR2, SIGALRM and SIGXCPU are what job schedulers warn with before they kill.
inline constexpr int kEndingSignals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                         SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};

// For kEndingSignals, unless the parent had them ignored.
void InstallSignalHandlers();

// The signal that came, or 0.
int CaughtSignal();

// Ends the process as the signal would have done, so that the parent sees it.
[[noreturn]] void EndBySignal(int signal);

}  // namespace convgrad::cli
