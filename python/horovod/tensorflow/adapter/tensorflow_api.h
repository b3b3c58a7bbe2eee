// SPDX-License-Identifier: Apache-2.0
// The part of TensorFlow's C API that the adapter uses. It is declared here and looked up at run
// time in the TensorFlow that the process has loaded, so one binary works with every version
// from 2.13 on.
//
// The structures belong to TensorFlow and are opaque. The functions have the names of its headers
// without "TF_". The values of the enums are part of TensorFlow's ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvd::tensorflow {

// NOLINTBEGIN(readability-identifier-naming): TensorFlow's names
struct TF_Status;
struct TF_Tensor;
struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;

struct TF_StringView {
  const char* data;
  size_t size;
};

enum TF_Code : int32_t {
  TF_OK = 0,
  TF_UNKNOWN = 2,
  TF_INVALID_ARGUMENT = 3,
  TF_FAILED_PRECONDITION = 9,
  TF_ABORTED = 10,
};

enum TF_DataType : int32_t {
  TF_FLOAT = 1,
  TF_DOUBLE = 2,
  TF_INT32 = 3,
  TF_UINT8 = 4,
  TF_INT16 = 5,
  TF_INT8 = 6,
  TF_INT64 = 9,
  TF_BOOL = 10,
  TF_BFLOAT16 = 14,
  TF_UINT16 = 17,
  TF_HALF = 19,
  TF_UINT32 = 22,
  TF_UINT64 = 23,
};

using TF_CreateKernel = void* (*)(TF_OpKernelConstruction*);
using TF_DeleteKernel = void (*)(void*);
using TF_Compute = void (*)(void*, TF_OpKernelContext*);
using TF_ComputeAsync = void (*)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using TF_InferShape = void (*)(TF_ShapeInferenceContext*, TF_Status*);
// NOLINTEND(readability-identifier-naming)

// name, result, arguments
#define HVD_TENSORFLOW_FUNCTIONS(F)                                                               \
  F(NewStatus, TF_Status*, (void))                                                                \
  F(DeleteStatus, void, (TF_Status*))                                                             \
  F(SetStatus, void, (TF_Status*, TF_Code, const char*))                                          \
  F(GetCode, TF_Code, (const TF_Status*))                                                         \
  F(Message, const char*, (const TF_Status*))                                                     \
  F(DeleteTensor, void, (TF_Tensor*))                                                             \
  F(TensorType, TF_DataType, (const TF_Tensor*))                                                  \
  F(NumDims, int, (const TF_Tensor*))                                                             \
  F(Dim, int64_t, (const TF_Tensor*, int))                                                        \
  F(TensorData, void*, (const TF_Tensor*))                                                        \
  F(NewOpDefinitionBuilder, TF_OpDefinitionBuilder*, (const char*))                               \
  F(OpDefinitionBuilderAddAttr, void, (TF_OpDefinitionBuilder*, const char*))                     \
  F(OpDefinitionBuilderAddInput, void, (TF_OpDefinitionBuilder*, const char*))                    \
  F(OpDefinitionBuilderAddOutput, void, (TF_OpDefinitionBuilder*, const char*))                   \
  F(OpDefinitionBuilderSetIsStateful, void, (TF_OpDefinitionBuilder*, bool))                      \
  F(OpDefinitionBuilderSetShapeInferenceFunction, void, (TF_OpDefinitionBuilder*, TF_InferShape)) \
  F(RegisterOpDefinition, void, (TF_OpDefinitionBuilder*, TF_Status*))                            \
  F(ShapeInferenceContextNumInputs, int64_t, (TF_ShapeInferenceContext*))                         \
  F(ShapeInferenceContextGetInput, void,                                                          \
    (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))                                \
  F(ShapeInferenceContextSetOutput, void,                                                         \
    (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))                                \
  F(ShapeInferenceContextSetUnknownShape, void, (TF_ShapeInferenceContext*, TF_Status*))          \
  F(ShapeInferenceContextScalar, TF_ShapeHandle*, (TF_ShapeInferenceContext*))                    \
  F(NewShapeHandle, TF_ShapeHandle*, (void))                                                      \
  F(DeleteShapeHandle, void, (TF_ShapeHandle*))                                                   \
  F(NewKernelBuilder, TF_KernelBuilder*,                                                          \
    (const char*, const char*, TF_CreateKernel, TF_Compute, TF_DeleteKernel))                     \
  F(NewAsyncKernelBuilder, TF_KernelBuilder*,                                                     \
    (const char*, const char*, TF_CreateKernel, TF_ComputeAsync, TF_DeleteKernel))                \
  F(RegisterKernelBuilder, void, (const char*, TF_KernelBuilder*, TF_Status*))                    \
  F(OpKernelConstruction_GetName, TF_StringView, (TF_OpKernelConstruction*))                      \
  F(OpKernelConstruction_Failure, void, (TF_OpKernelConstruction*, TF_Status*))                   \
  F(OpKernelConstruction_GetAttrSize, void,                                                       \
    (TF_OpKernelConstruction*, const char*, int32_t*, int32_t*, TF_Status*))                      \
  F(OpKernelConstruction_GetAttrInt32, void,                                                      \
    (TF_OpKernelConstruction*, const char*, int32_t*, TF_Status*))                                \
  F(OpKernelConstruction_GetAttrFloat, void,                                                      \
    (TF_OpKernelConstruction*, const char*, float*, TF_Status*))                                  \
  F(OpKernelConstruction_GetAttrBool, void,                                                       \
    (TF_OpKernelConstruction*, const char*, unsigned char*, TF_Status*))                          \
  F(OpKernelConstruction_GetAttrString, void,                                                     \
    (TF_OpKernelConstruction*, const char*, char*, size_t, TF_Status*))                           \
  F(NumInputs, int, (TF_OpKernelContext*))                                                        \
  F(GetInput, void, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                          \
  F(AllocateOutput, TF_Tensor*,                                                                   \
    (TF_OpKernelContext*, int, TF_DataType, const int64_t*, int, size_t, TF_Status*))             \
  F(ForwardInputOrAllocateOutput, TF_Tensor*,                                                     \
    (TF_OpKernelContext*, const int*, int, int, const int64_t*, int, int*, TF_Status*))           \
  F(OpKernelContext_Failure, void, (TF_OpKernelContext*, TF_Status*))

struct Api {
#define HVD_TENSORFLOW_FIELD(name, result, arguments) result(*name) arguments;
  HVD_TENSORFLOW_FUNCTIONS(HVD_TENSORFLOW_FIELD)
#undef HVD_TENSORFLOW_FIELD
};

// load_api() fills it, before any other code of the adapter runs; it is constant afterwards.
extern Api api;

// Looks up the functions in the TensorFlow of this process. Returns a message about what is
// missing, empty on success.
std::string load_api();

// Owns a status, in which functions of the API report errors. Not thread-safe; needs load_api().
class Report {
 public:
  Report() : status_(api.NewStatus()) {}
  ~Report() { api.DeleteStatus(status_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  operator TF_Status*() const { return status_; }  // NOLINT(google-explicit-constructor)
  bool ok() const { return api.GetCode(status_) == TF_OK; }
  TF_Code code() const { return api.GetCode(status_); }
  std::string message() const { return api.Message(status_); }

 private:
  TF_Status* status_;
};

}  // namespace hvd::tensorflow
