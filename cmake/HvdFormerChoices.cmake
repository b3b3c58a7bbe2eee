# SPDX-License-Identifier: Apache-2.0
#
# Environment variables selected the parts of Horovod 0.28 at build time. This build has all parts,
# so the variables have no effect. Install instructions still set them, so they must not be an
# error. To test this file alone:
#   cmake -P cmake/HvdFormerChoices.cmake
set(former ALLOW_MIXED_GPU_IMPL BUILD_ARCH_FLAGS BUILD_CUDA_CC_LIST CUDA_HOME GPU GPU_ALLGATHER
  GPU_ALLREDUCE GPU_ALLTOALL GPU_BROADCAST GPU_OPERATIONS GPU_REDUCESCATTER NCCL_HOME NCCL_INCLUDE
  NCCL_LIB NCCL_LINK NVTX_INCLUDE ROCM_HOME SKIP_COMPILE)
foreach(part GLOO MPI MXNET PYTORCH TENSORFLOW)
  list(APPEND former WITH_${part} WITHOUT_${part})
endforeach()

set(ignored "")
foreach(name IN LISTS former)
  if(NOT "$ENV{HOROVOD_${name}}" STREQUAL "")
    list(APPEND ignored "HOROVOD_${name}=$ENV{HOROVOD_${name}}")
  endif()
endforeach()
if(ignored)
  list(JOIN ignored " " ignored)
  message(WARNING "These variables chose parts of Horovod 0.28 and choose nothing here: ${ignored}. "
    "One build serves PyTorch, TensorFlow and Keras; it moves tensors by shared memory and TCP, and "
    "has no GPU path.")
endif()
