# SPDX-License-Identifier: Apache-2.0
# Compiler settings for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(HVD_TESTS "Build the C++ tests" ON)
option(HVD_BENCHMARKS "Build the C++ benchmarks" OFF)
option(HVD_PYTHON "Build the Python module" ON)
option(HVD_BUNDLE "Link what other machines may not have into the library" OFF)
option(HVD_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
option(HVD_FAST_BUILD "Parse common headers once and compile several sources at a time" OFF)
set(HVD_SANITIZE "" CACHE STRING "Sanitizers for every target: 'address,undefined' or 'thread'")

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
# No fused multiply-adds: the bits of an element must not depend on which loop computed it.
add_compile_options(-ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)
endif()
if(HVD_SANITIZE)
  add_compile_options(-fsanitize=${HVD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HVD_SANITIZE})
  add_compile_definitions(HVD_FEW_TARGETS)
endif()
if(HVD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HVD_FUZZERS needs clang: use the preset 'asan'")
  endif()
  add_custom_target(fuzzers)
endif()

# A shared libfmt would have to be shipped with our library; the header-only variant avoids that.
set(HVD_FMT fmt::fmt)
if(HVD_BUNDLE)
  set(HVD_FMT fmt::fmt-header-only)
endif()

# ccache does not cache sources with precompiled headers unless CCACHE_SLOPPINESS permits it; the
# Makefile sets it.
find_program(HVD_CCACHE ccache)
if(HVD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${HVD_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${HVD_CCACHE}")
endif()
