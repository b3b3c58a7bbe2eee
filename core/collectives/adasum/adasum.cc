// SPDX-License-Identifier: Apache-2.0
#include "collectives/adasum/adasum.h"

#include <string>

namespace hvd {

Status adasum(const CollectiveContext& context, Bytes data, std::span<const size_t> counts,
              DType dtype, double prescale, double postscale) {
  if (!is_floating(dtype)) {
    return invalid_argument("Adasum needs a floating dtype, not " + std::string(to_string(dtype)) +
                            "; use Sum or Average, or cast the tensor to float32");
  }
  return halving_doubling_adasum(context, data, counts, dtype, prescale, postscale);
}

}  // namespace hvd
