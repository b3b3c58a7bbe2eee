// SPDX-License-Identifier: Apache-2.0
#include "call.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "dtypes.h"

namespace hvd::tensorflow {
namespace {

// The classes of tf.errors that Horovod uses. A reducescatter with an operation other than sum and
// average is AbortedError there, not InvalidArgumentError.
TF_Code to_code(hvd_code code, const hvd_request& request) {
  const bool no_such_reduction =
      request.collective == HVD_REDUCESCATTER && request.op != HVD_SUM && request.op != HVD_AVERAGE;
  switch (code) {
    case HVD_INVALID_ARGUMENT: return no_such_reduction ? TF_ABORTED : TF_INVALID_ARGUMENT;
    case HVD_NOT_FOUND: return TF_INVALID_ARGUMENT;
    case HVD_PRECONDITION:
    case HVD_NOT_INITIALIZED: return TF_FAILED_PRECONDITION;
    default: return TF_UNKNOWN;
  }
}

// The address of empty tensors: TensorFlow returns null for them, and the engine needs an address.
// It is never read or written.
std::byte empty_tensor_data;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

int64_t elements_of(const int64_t* shape, int32_t dims) {
  return std::accumulate(shape, shape + dims, int64_t{1}, std::multiplies<>());
}

}  // namespace

Call::Call(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done)
    : kernel_(kernel), context_(context), done_(std::move(done)) {}

Call::~Call() {
  for (const Tensor& tensor : tensors_) {
    if (tensor.input != nullptr) api.DeleteTensor(tensor.input);
    if (tensor.output != nullptr) api.DeleteTensor(tensor.output);
  }
}

void Call::start(const Kernel& kernel, TF_OpKernelContext* context, std::function<void()> done) {
  auto call = std::unique_ptr<Call>(new Call(kernel, context, std::move(done)));
  if (!call->take_inputs()) return end(std::move(call));
  hvd_request request = kernel.request;
  request.allocate = &Call::allocate;
  request.done = &Call::finish;
  request.context = call.get();
  request.label = kernel.op.name;
  if (!kernel.name.empty()) call->name_tensors();
  const auto count = static_cast<int32_t>(call->views_.size());
  const hvd_code code = hvd_submit(&request, call->views_.data(), count, nullptr);
  if (code == HVD_OK)
    return static_cast<void>(call.release());  // finish() owns it, or has deleted it
  call->fail(code, hvd_error());
  end(std::move(call));
}

// The inputs -------------------------------------------------------------------------------------

bool Call::take_inputs() {
  if (kernel_.op.collective == HVD_JOIN) return true;
  const bool has_splits = kernel_.op.collective == HVD_ALLTOALL;
  tensors_.resize(static_cast<size_t>(api.NumInputs(context_) - (has_splits ? 1 : 0)));
  views_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!take(static_cast<int>(i))) return false;
  }
  return !has_splits || take_splits();
}

// Fills tensors_[index] and views_[index] from input `index` of the operation. For collectives that
// keep the shape it also allocates the output; for the others the engine calls allocate() when it
// knows the size.
bool Call::take(int index) {
  Report report;
  Tensor& tensor = tensors_[static_cast<size_t>(index)];
  hvd_tensor& view = views_[static_cast<size_t>(index)];
  api.GetInput(context_, index, &tensor.input, report);
  if (!report.ok()) return refuse(report);
  view.size = sizeof(hvd_tensor);
  if (!to_dtype(api.TensorType(tensor.input), view.dtype)) {
    api.SetStatus(report, TF_INVALID_ARGUMENT, "tensors of this type cannot be sent");
    return refuse(report);
  }
  tensor.shape.resize(static_cast<size_t>(api.NumDims(tensor.input)));
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    tensor.shape[i] = api.Dim(tensor.input, static_cast<int>(i));
  }
  view.shape = tensor.shape.data();
  view.dims = static_cast<int32_t>(tensor.shape.size());
  if (keeps_shapes() && !forward(index)) return false;
  if (elements_of(view.shape, view.dims) == 0) {
    view.input = &empty_tensor_data;
    view.output = keeps_shapes() ? &empty_tensor_data : nullptr;
    return true;
  }
  view.input = api.TensorData(tensor.input != nullptr ? tensor.input : tensor.output);
  view.output = tensor.output != nullptr ? api.TensorData(tensor.output) : nullptr;
  return true;
}

// Reduces in place if no other operation needs the input. TensorFlow detects that by the reference
// count, so we must release our own reference first and take a new one if the memory differs.
bool Call::forward(int index) {
  Report report;
  Tensor& tensor = tensors_[static_cast<size_t>(index)];
  api.DeleteTensor(std::exchange(tensor.input, nullptr));
  int forwarded = -1;
  tensor.output =
      api.ForwardInputOrAllocateOutput(context_, &index, 1, index, tensor.shape.data(),
                                       static_cast<int>(tensor.shape.size()), &forwarded, report);
  if (report.ok() && forwarded < 0) api.GetInput(context_, index, &tensor.input, report);
  return report.ok() || refuse(report);
}

bool Call::take_splits() {
  Report report;
  TF_Tensor* splits = nullptr;
  api.GetInput(context_, 1, &splits, report);
  if (!report.ok()) return refuse(report);
  if (api.NumDims(splits) != 1) {
    api.SetStatus(report, TF_INVALID_ARGUMENT, "the splits of an alltoall have to be a vector");
    api.DeleteTensor(splits);
    return refuse(report);
  }
  const auto* begin = static_cast<const int32_t*>(api.TensorData(splits));
  const int64_t count = api.Dim(splits, 0);
  if (count > 0) {  // without splits, all ranks get equal parts
    splits_.assign(begin, begin + count);
    views_[0].splits = splits_.data();
    views_[0].split_count = static_cast<int32_t>(count);
  }
  api.DeleteTensor(splits);
  return true;
}

// Member i of a group of n is named "<name>_<i>of<n>", counted from 1, as in xla.py.
void Call::name_tensors() {
  const std::string of_all = "of" + std::to_string(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::string& full = tensors_[i].name;
    full = kernel_.name;
    if (kernel_.op.groups) full.append("_").append(std::to_string(i + 1)).append(of_all);
    views_[i].name = full.c_str();
  }
}

bool Call::keeps_shapes() const {
  return kernel_.op.collective == HVD_ALLREDUCE || kernel_.op.collective == HVD_BROADCAST;
}

// The outputs ------------------------------------------------------------------------------------

void* Call::allocate(void* call, int32_t index, const int64_t* shape, int32_t dims) {
  auto& self = *static_cast<Call*>(call);
  Tensor& tensor = self.tensors_[static_cast<size_t>(index)];
  const int64_t elements = elements_of(shape, dims);
  const size_t bytes =
      static_cast<size_t>(elements) * hvd_dtype_size(self.views_[static_cast<size_t>(index)].dtype);
  Report report;
  tensor.output = api.AllocateOutput(self.context_, index, api.TensorType(tensor.input), shape,
                                     dims, bytes, report);
  if (!report.ok()) return nullptr;
  return elements == 0 ? &empty_tensor_data : api.TensorData(tensor.output);
}

// Writes an output of type int32: a scalar if `dims` is 0 (`count` is 1 then), or a vector if it
// is 1.
bool Call::put_numbers(int output, const int32_t* numbers, int64_t count, int dims) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
  Report report;
  TF_Tensor* tensor = api.AllocateOutput(context_, output, TF_INT32, &count, dims, bytes, report);
  if (report.ok() && bytes > 0) std::memcpy(api.TensorData(tensor), numbers, bytes);
  if (tensor != nullptr) api.DeleteTensor(tensor);
  return report.ok() || refuse(report);
}

// The end ----------------------------------------------------------------------------------------

bool Call::refuse(const Report& report) {
  api.OpKernelContext_Failure(context_, report);
  return false;
}

// `message` must stay valid during the call only; TensorFlow copies it.
void Call::fail(hvd_code code, const char* message) {
  Report report;
  if (code == HVD_NOT_INITIALIZED) message = kNotInitialized;
  api.SetStatus(report, to_code(code, kernel_.request),
                (std::string(kernel_.op.name) + ": " + message).c_str());
  refuse(report);
}

void Call::finish(void* call, hvd_operation* operation, hvd_code code, const char* message) {
  auto self = std::unique_ptr<Call>(static_cast<Call*>(call));
  if (code != HVD_OK) {
    self->fail(code, message);
  } else if (self->kernel_.op.collective == HVD_JOIN) {
    const int32_t last = hvd_last_joined(operation);
    self->put_numbers(0, &last, 1, 0);
  } else if (self->kernel_.op.collective == HVD_ALLTOALL) {
    hvd_output output = {sizeof(hvd_output), nullptr, nullptr, 0, nullptr, 0};
    hvd_get_output(operation, 0, &output);
    self->put_numbers(1, output.received_splits, output.split_count, 1);
  }
  end(std::move(self));
}

void Call::end(std::unique_ptr<Call> call) {
  const std::function<void()> done = std::move(call->done_);
  call.reset();
  done();
}

}  // namespace hvd::tensorflow
