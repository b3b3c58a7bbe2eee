// SPDX-License-Identifier: Apache-2.0
#include "tensorflow_api.h"

#include <dlfcn.h>

namespace hvd::tensorflow {

Api api;

std::string load_api() {
  void* library = dlopen("libtensorflow_framework.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    return "this process has no libtensorflow_framework.so.2; import tensorflow first, of version "
           "2.13 or later and below 3";
  }
  std::string missing;
  const auto find = [&](const char* name) {
    void* found = dlsym(library, name);
    if (found == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    return found;
  };
#define HVD_TENSORFLOW_FIND(name, result, arguments) \
  api.name = reinterpret_cast<decltype(api.name)>(find("TF_" #name));
  HVD_TENSORFLOW_FUNCTIONS(HVD_TENSORFLOW_FIND)
#undef HVD_TENSORFLOW_FIND
  // The callback of an asynchronous kernel is a std::function. Its layout has to be the same in
  // TensorFlow and here (see copy_of in kernels.cc), which is so if both use libstdc++. This symbol
  // exists only then.
  find("_ZSt25__throw_bad_function_callv");
  dlclose(library);  // TensorFlow keeps it open
  if (missing.empty()) return {};
  return "this TensorFlow lacks " + missing + "; use TensorFlow 2.13 or later";
}

}  // namespace hvd::tensorflow
