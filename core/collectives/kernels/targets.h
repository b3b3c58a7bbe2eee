// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels are compiled for. Include it before any Highway header.
//
// On x86-64 these are plain SSE2 (as "SCALAR"), SSE4, AVX2 and AVX-512; on Arm only NEON. Excluded
// are SSSE3 (no processor of the last fifteen years has it without SSE4), AVX3_DL (it adds nothing
// that sums use), and SVE and RVV (their sizeless vectors cannot be members of a struct, as in
// lanes-inl.h).
#pragma once

#ifdef HVD_FEW_TARGETS
// Under a sanitizer one vector instruction set finds the same errors as three and compiles in half
// the time.
#define HVD_SKIPPED_TARGETS (HWY_SSE4 | HWY_AVX3)
#else
#define HVD_SKIPPED_TARGETS 0
#endif

#define HWY_DISABLED_TARGETS                                                          \
  (HVD_SKIPPED_TARGETS | HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
