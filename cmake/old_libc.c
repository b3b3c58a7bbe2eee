/* SPDX-License-Identifier: Apache-2.0 */
// Functions of glibc 2.32 for builds against an older glibc (HVD_SYSROOT).
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>

#define HVD_HIDDEN __attribute__((visibility("hidden")))

// libstdc++ uses non-atomic reference counts if this is not 0. 0: there may be other threads.
HVD_HIDDEN char __libc_single_threaded = 0;

static const char* const kNames[] = {
    [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
    [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
    [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
    [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
    [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
    [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
    [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
    [SIGPOLL] = "POLL", [SIGPWR] = "PWR",       [SIGSYS] = "SYS"};

// The name of a signal without "SIG", or null.
HVD_HIDDEN const char* sigabbrev_np(int number) {
  const size_t count = sizeof(kNames) / sizeof(kNames[0]);
  return number >= 0 && (size_t)number < count ? kNames[number] : NULL;
}
