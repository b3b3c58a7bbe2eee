// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "call.h"
#include "capi/hvd.h"
#include "ops.h"
#include "tensorflow_api.h"

namespace hvd::tensorflow {
namespace {

// Reads the attributes of a node. After the first failure it returns zeros and empty strings, and
// finish() reports that failure.
class Attributes {
 public:
  explicit Attributes(TF_OpKernelConstruction* node) : node_(node) {}

  int32_t number(const char* name) {
    int32_t value = 0;
    if (report_.ok()) api.OpKernelConstruction_GetAttrInt32(node_, name, &value, report_);
    return value;
  }
  float real(const char* name) {
    float value = 0;
    if (report_.ok()) api.OpKernelConstruction_GetAttrFloat(node_, name, &value, report_);
    return value;
  }
  bool truth(const char* name) {
    unsigned char value = 0;
    if (report_.ok()) api.OpKernelConstruction_GetAttrBool(node_, name, &value, report_);
    return value != 0;
  }
  std::string text(const char* name) {
    int32_t count = 0;
    int32_t length = 0;
    if (report_.ok()) {
      api.OpKernelConstruction_GetAttrSize(node_, name, &count, &length, report_);
    }
    std::string value(report_.ok() && length > 0 ? static_cast<size_t>(length) : 0, '\0');
    if (!value.empty()) {
      api.OpKernelConstruction_GetAttrString(node_, name, value.data(), value.size(), report_);
    }
    return value;
  }
  std::string node_name() const {
    const TF_StringView name = api.OpKernelConstruction_GetName(node_);
    return {name.data, name.size};
  }

  // Reports the first failure to TensorFlow, if any. Returns whether all attributes were read.
  bool finish() {
    if (!report_.ok()) api.OpKernelConstruction_Failure(node_, report_);
    return report_.ok();
  }

 private:
  TF_OpKernelConstruction* node_;
  Report report_;
};

std::string without_scope(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// The name for the engine; see kTensorName in ops.h. Empty: the library numbers the operation.
std::string tensor_name(Attributes& attributes) {
  std::string name = attributes.text(kTensorName);
  const bool numbered = attributes.truth(kNumbered);
  const bool ignore_scope = attributes.truth(kIgnoreScope);
  if (!name.empty() || numbered) return name;
  name = attributes.node_name();
  return ignore_scope ? without_scope(name) : name;
}

// Returns null after an error, which TensorFlow then raises instead of running the kernel.
template <size_t Index>
void* create_collective(TF_OpKernelConstruction* node) {
  const CollectiveOp& op = collective_ops()[Index];
  auto kernel = std::make_unique<Kernel>(Kernel{.op = op, .request = HVD_REQUEST_INIT});
  kernel->request.collective = op.collective;
  Attributes attributes(node);
  if (reduces(op.collective)) {
    kernel->request.op = static_cast<hvd_reduce_op>(attributes.number(kReduceOp));
    kernel->request.prescale = attributes.real(kPrescale);
    kernel->request.postscale = attributes.real(kPostscale);
  }
  if (op.collective == HVD_BROADCAST) kernel->request.root = attributes.number(kRoot);
  if (op.collective != HVD_JOIN) {
    kernel->request.process_set = attributes.number(kProcessSet);
    kernel->name = tensor_name(attributes);
  }
  return attributes.finish() ? kernel.release() : nullptr;
}

void delete_collective(void* kernel) { delete static_cast<Kernel*>(kernel); }

// `done` is the address of a std::function that TensorFlow destroys when the kernel returns (an
// error in its C API), so we copy it. Both sides have the same std::function; see load_api().
std::function<void()> copy_of(TF_AsyncOpKernelDoneCallback* done) {
  return *reinterpret_cast<std::function<void()>*>(done);
}

void compute_collective(void* kernel, TF_OpKernelContext* context,
                        TF_AsyncOpKernelDoneCallback* done) {
  Call::start(*static_cast<const Kernel*>(kernel), context, copy_of(done));
}

// TensorFlow owns it, as Kernel.
struct PlaceKernel {
  const PlaceOp& op;
  int32_t process_set;
};

template <size_t Index>
void* create_place(TF_OpKernelConstruction* node) {
  const PlaceOp& op = place_ops()[Index];
  Attributes attributes(node);
  const int32_t process_set = op.of_set ? attributes.number(kProcessSet) : HVD_GLOBAL_SET;
  return attributes.finish() ? new PlaceKernel{op, process_set} : nullptr;
}

void delete_place(void* kernel) { delete static_cast<PlaceKernel*>(kernel); }

// Synchronous: reading a number of the job does not wait. Fails if there is no job, or no such
// process set.
void compute_place(void* kernel, TF_OpKernelContext* context) {
  const auto& place = *static_cast<const PlaceKernel*>(kernel);
  Report report;
  const int value = place.op.value(place.process_set);
  if (value < 0) {
    const std::string text = hvd_is_initialized() != 0
                                 ? std::string(place.op.name) + ": there is no process set " +
                                       std::to_string(place.process_set)
                                 : kNotInitialized;
    api.SetStatus(report, TF_FAILED_PRECONDITION, text.c_str());
  } else {
    TF_Tensor* output =
        api.AllocateOutput(context, 0, TF_INT32, nullptr, 0, sizeof(int32_t), report);
    if (report.ok()) *static_cast<int32_t*>(api.TensorData(output)) = value;
    if (output != nullptr) api.DeleteTensor(output);
  }
  if (!report.ok()) api.OpKernelContext_Failure(context, report);
}

// TensorFlow passes no argument that identifies the operation to the function that creates a
// kernel, so each operation has an instance of a template.
template <size_t... Index>
std::string register_collectives(std::index_sequence<Index...>) {
  Report report;
  const auto add = [&](const char* name, TF_CreateKernel create) {
    if (!report.ok()) return;
    TF_KernelBuilder* builder =
        api.NewAsyncKernelBuilder(name, "CPU", create, compute_collective, delete_collective);
    api.RegisterKernelBuilder(name, builder, report);
  };
  (add(collective_ops()[Index].name, create_collective<Index>), ...);
  return report.ok() ? std::string() : report.message();
}

template <size_t... Index>
std::string register_places(std::index_sequence<Index...>) {
  Report report;
  const auto add = [&](const char* name, TF_CreateKernel create) {
    if (!report.ok()) return;
    TF_KernelBuilder* builder =
        api.NewKernelBuilder(name, "CPU", create, compute_place, delete_place);
    api.RegisterKernelBuilder(name, builder, report);
  };
  (add(place_ops()[Index].name, create_place<Index>), ...);
  return report.ok() ? std::string() : report.message();
}

}  // namespace

std::string register_kernels() {
  std::string problem = register_collectives(std::make_index_sequence<kCollectiveOpCount>());
  if (problem.empty()) problem = register_places(std::make_index_sequence<kPlaceOpCount>());
  return problem;
}

}  // namespace hvd::tensorflow
