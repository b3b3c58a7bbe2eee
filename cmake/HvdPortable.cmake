# SPDX-License-Identifier: Apache-2.0
# What HVD_BUNDLE does to native files, so that one build runs on other machines than this one.
set(HVD_SYSROOT "" CACHE PATH
  "With HVD_BUNDLE: an older C library to link against; scripts/make_sysroot.sh makes one")

# No path of this machine in a file: two builds of one commit are the same bytes wherever they are made.
if(HVD_BUNDLE)
  # ccache makes paths relative where CCACHE_BASEDIR asks for it.
  file(RELATIVE_PATH source "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
  string(REGEX REPLACE "/$" "" source "${source}")
  add_compile_options(
    "-ffile-prefix-map=${source}=."
    "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build"
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
endif()

# hvd_portable(<target>…)
#
# Links the C++ runtime into shared libraries, modules and programs: a machine with an older compiler
# has an older libstdc++. --gc-sections drops std::random_device with its need of glibc 2.36.
# libgcc_s stays shared: it is on every manylinux system, the functions in use are those of GCC 4.2,
# and Debian 12's archive of it needs glibc 2.35 (_dl_find_object).
function(hvd_portable)
  if(NOT HVD_BUNDLE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    target_link_options(${target} PRIVATE
      -static-libstdc++ "LINKER:--exclude-libs,ALL" "LINKER:--gc-sections")
    if(HVD_SYSROOT)
      # gcc looks beside itself before it looks into --sysroot, hence -B (crt1.o) and -L. As options:
      # target_link_directories would write the folders into the files, as places to find libraries.
      set(development "${HVD_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
      set(runtime "${HVD_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
      target_link_options(${target} PRIVATE
        "--sysroot=${HVD_SYSROOT}" "-B${development}" "-L${development}" "-L${runtime}")
      # Parts of the C library itself since 2.34.
      target_link_libraries(${target} PRIVATE pthread dl rt)
      target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/old_libc.c")
    endif()
  endforeach()
endfunction()
