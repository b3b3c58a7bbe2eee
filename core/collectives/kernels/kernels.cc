// SPDX-License-Identifier: Apache-2.0
#include "collectives/kernels/kernels.h"

#include "collectives/kernels/combine.h"
#include "collectives/kernels/targets.h"
// After targets.h, which says what there is to choose from.
#include "hwy/highway.h"

namespace hvd::kernels {

CombineFn combine_fn(Combine combine, DType dtype) {
  return is_floating(dtype) ? float_combine_fn(combine, dtype) : integer_combine_fn(combine, dtype);
}

const char* target_name() {
  // A lower bit is a better target.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable != 0 ? usable & -usable : HWY_STATIC_TARGET);
}

}  // namespace hvd::kernels
