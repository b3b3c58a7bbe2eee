// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels are compiled for. Include it before any Highway header.
//
// On x86-64 these are plain SSE2 (as "SCALAR"), SSE4, AVX2 and AVX-512; on Arm NEON alone. The rest
// is left out: SSSE3 without SSE4 is fifteen years gone, AVX3_DL adds nothing that sums use, and
// the sizeless vectors of SVE and RVV cannot be members of a struct, as lanes-inl.h has them.
#pragma once

#ifdef HVD_FEW_TARGETS
// Under a sanitizer one set of vectors tells as much as three, and compiles in half the time.
#define HVD_SKIPPED_TARGETS (HWY_SSE4 | HWY_AVX3)
#else
#define HVD_SKIPPED_TARGETS 0
#endif

#define HWY_DISABLED_TARGETS                                                          \
  (HVD_SKIPPED_TARGETS | HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
