// SPDX-License-Identifier: Apache-2.0
#include "collectives/kernels/kernels.h"

#include "collectives/kernels/combine.h"
#include "collectives/kernels/targets.h"
// After targets.h, which defines the compiled instruction sets.
#include "hwy/highway.h"

namespace hvd::kernels {

CombineFn combine_fn(Combine combine, DType dtype) {
  return is_floating(dtype) ? float_combine_fn(combine, dtype) : integer_combine_fn(combine, dtype);
}

const char* target_name() {
  // In Highway's masks a lower bit is a better instruction set.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable != 0 ? usable & -usable : HWY_STATIC_TARGET);
}

}  // namespace hvd::kernels
