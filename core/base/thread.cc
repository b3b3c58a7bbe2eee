// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <pthread.h>

namespace hvd {

void set_this_thread_name(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

std::string thread_refused(const std::string& name) {
  return "cannot start the thread " + name +
         "; raise the limit of processes (ulimit -u, or pids.max of the control group)";
}

}  // namespace hvd
