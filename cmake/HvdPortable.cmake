# SPDX-License-Identifier: Apache-2.0
# Settings of HVD_BUNDLE, with which one build runs on other machines.
set(HVD_SYSROOT "" CACHE PATH
  "With HVD_BUNDLE: an older C library to link against; scripts/make_sysroot.sh makes one")

# Removes paths of this machine from the files: builds of one commit are identical on every machine.
if(HVD_BUNDLE)
  # ccache makes paths relative if CCACHE_BASEDIR is set.
  file(RELATIVE_PATH source "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" source "${source}")
  add_compile_options(
    "-ffile-prefix-map=${source}=."
    "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build"
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
endif()

# hvd_portable(<target>…)
#
# Links the C++ runtime statically into libraries, modules and programs: a machine with an older
# compiler has an older libstdc++. --gc-sections removes std::random_device, which needs glibc 2.36.
# libgcc_s stays shared: every manylinux system has it, the functions used exist since GCC 4.2, and
# Debian 12's static libgcc needs glibc 2.35 (_dl_find_object).
function(hvd_portable)
  if(NOT HVD_BUNDLE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    target_link_options(${target} PRIVATE
      -static-libstdc++ "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections")
    if(HVD_SYSROOT)
      # gcc searches its own directory before --sysroot, hence -B (crt1.o) and -L. These are link
      # options because target_link_directories would write the folders into the files (RPATH).
      set(development "${HVD_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
      set(runtime "${HVD_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
      target_link_options(${target} PRIVATE
        "--sysroot=${HVD_SYSROOT}" "-B${development}" "-L${development}" "-L${runtime}")
      # Since glibc 2.34 these are parts of the C library itself.
      target_link_libraries(${target} PRIVATE pthread dl rt)
      target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/old_libc.c")
    endif()
  endforeach()
endfunction()
