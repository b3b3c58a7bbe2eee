# SPDX-License-Identifier: Apache-2.0
#
# Cross-compiles for 64-bit Arm with Debian's compiler; tests
# run under qemu. `make arm64` first unpacks Debian's arm64 packages into build/arm64-root.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root" ABSOLUTE)
set(libraries "${root}/usr/lib/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH "${root}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# The packages' own shared libraries need each other.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}")
# openssl/configuration.h is in the folder of the architecture.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${root}/usr/include/aarch64-linux-gnu")
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=${libraries}")
