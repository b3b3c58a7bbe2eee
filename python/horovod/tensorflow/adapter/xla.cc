// SPDX-License-Identifier: Apache-2.0
#include "xla.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "capi/hvd.h"
#include "dtypes.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {
namespace {

// XLA's structure for the status of a call: the message if the call failed. register_xla_target()
// checks at load time that XLA reads it in the same way.
using CallStatus = std::optional<std::string>;

// One tensor of a collective.
struct Member {
  std::string name;
  std::vector<int64_t> shape;
  hvd_dtype dtype;
};

// One collective, as xla.py describes it.
struct Program {
  hvd_request request = HVD_REQUEST_INIT;
  std::vector<Member> members;
};

// Parses the text of xla.py. The first line is "collective op prescale postscale root set count".
// Then each tensor has a line "type dims dimension... name". A name may contain any character
// except a newline. Returns false if the text is not of this form.
bool read_program(const std::string& text, Program& program) {
  std::istringstream in(text);
  int collective = 0;
  int op = 0;
  size_t count = 0;
  in >> collective >> op >> program.request.prescale >> program.request.postscale >>
      program.request.root >> program.request.process_set >> count;
  program.request.collective = static_cast<hvd_collective>(collective);
  program.request.op = static_cast<hvd_reduce_op>(op);
  program.members.resize(in ? count : 0);
  for (Member& member : program.members) {
    int type = 0;
    size_t dims = 0;
    in >> type >> dims;
    member.shape.resize(in ? dims : 0);
    for (int64_t& dimension : member.shape) in >> dimension;
    in >> std::ws;
    std::getline(in, member.name);
    if (!in || !to_dtype(static_cast<TF_DataType>(type), member.dtype)) return false;
  }
  return !program.members.empty();
}

// The views point into `program` and into the buffers of XLA, which must outlive the operation.
std::vector<hvd_tensor> views_of(const Program& program, void* out, const void* const* in) {
  const bool alone = program.members.size() == 1;
  std::vector<hvd_tensor> views;
  for (size_t i = 0; i < program.members.size(); ++i) {
    const Member& member = program.members[i];
    hvd_tensor view = {sizeof(hvd_tensor),
                       member.name.c_str(),
                       nullptr,
                       nullptr,
                       nullptr,
                       0,
                       member.dtype,
                       nullptr,
                       0};
    view.input = in[i];
    // XLA passes the buffer itself for one result, and an array of buffers for several.
    view.output = alone ? out : static_cast<void* const*>(out)[i];
    view.shape = member.shape.data();
    view.dims = static_cast<int32_t>(member.shape.size());
    views.push_back(view);
  }
  return views;
}

// The function that XLA calls, on the thread that runs the compiled program. Blocks until the
// collective has ended. Errors go into `status`, and XLA raises them.
void run(void* out, const void** in, const char* text, size_t length, void* status) {
  auto& failure = *static_cast<CallStatus*>(status);
  Program program;
  if (!read_program(std::string(text, length), program)) {
    failure =
        "horovod: the description of a compiled collective cannot be read; was the function "
        "saved by another version of horovod?";
    return;
  }
  program.request.flags = HVD_WILL_WAIT;
  const std::vector<hvd_tensor> views = views_of(program, out, in);
  hvd_operation* operation = nullptr;
  hvd_code code =
      hvd_submit(&program.request, views.data(), static_cast<int32_t>(views.size()), &operation);
  if (code == HVD_OK) code = hvd_wait(operation, -1);
  if (code != HVD_OK) failure = std::string("Horovod: ") + hvd_error();
  hvd_release(operation);
}

}  // namespace

std::string register_xla_target() {
  // RTLD_NOLOAD: only the library that TensorFlow has loaded, never a second copy.
  void* library = dlopen("libtensorflow_cc.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "this TensorFlow has no libtensorflow_cc.so.2";
  const auto global =
      reinterpret_cast<void* (*)()>(dlsym(library, "_ZN3xla24CustomCallTargetRegistry6GlobalEv"));
  using Register = void (*)(void*, const std::string&, void*, const std::string&);
  const auto add = reinterpret_cast<Register>(
      dlsym(library,
            "_ZN3xla24CustomCallTargetRegistry8RegisterERKNSt7__cxx1112basic_stringIcSt11char_"
            "traitsIcESaIcEEEPvS8_"));
  using Message = std::optional<std::string_view> (*)(const CallStatus*);
  const auto message = reinterpret_cast<Message>(
      dlsym(library, "_ZN3xla26CustomCallStatusGetMessageEPK20XlaCustomCallStatus_"));
  dlclose(library);
  if (global == nullptr || add == nullptr || message == nullptr) {
    return "this TensorFlow does not export XLA's list of functions";
  }
  const CallStatus success;
  const CallStatus failed = "read alike";
  if (message(&success) || message(&failed) != "read alike") {
    return "XLA reports failures in another way than this build knows";
  }
  add(global(), kXlaTarget, reinterpret_cast<void*>(&run), "Host");
  return {};
}

}  // namespace hvd::tensorflow
