#include "base/thread.h"

#include <pthread.h>

namespace hvd {

void set_this_thread_name(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace hvd
