# SPDX-License-Identifier: Apache-2.0
#
# Parsing headers takes half of the compile time, and Google
# Test is the largest part of it. All tests share one precompiled set of headers. With
# HVD_FAST_BUILD the layers share another one and use unity builds; without it, as in the preset
# dev, each source proves that it includes what it uses.
set(HVD_COMMON_HEADERS
  <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <vector>
  <fmt/format.h>)

# hvd_layer(<name> SOURCES … [DEPENDS <layer>…] [LINK <target>…])
#
# Defines one layer of core/ as the static library hvd_<name>. It can use only the layers in
# DEPENDS; tests/layers_test.py checks the #include lines against the same rule.
function(hvd_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(hvd_${name} STATIC ${LAYER_SOURCES})
  target_include_directories(hvd_${name} PUBLIC "${PROJECT_SOURCE_DIR}/core")
  list(TRANSFORM LAYER_DEPENDS PREPEND hvd_)
  target_link_libraries(hvd_${name} PUBLIC ${LAYER_DEPENDS} ${LAYER_LINK})
  if(HVD_FUZZERS)  # coverage counters, through which a fuzzer sees what an input reached
    target_compile_options(hvd_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(HVD_FAST_BUILD)
    if(name STREQUAL base)
      target_precompile_headers(hvd_base PRIVATE ${HVD_COMMON_HEADERS})
    else()
      target_precompile_headers(hvd_${name} REUSE_FROM hvd_base)
    endif()
    set_target_properties(hvd_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

# hvd_test(<name> SOURCES … LINK <target>… [TIMEOUT <seconds>] [SERIAL])
#
# Defines one test program. Its main() ends a test that exceeds its own time limit; TIMEOUT is the
# limit of the whole program. With SERIAL no other program runs at the same time.
function(hvd_test name)
  if(NOT HVD_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "SERIAL" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 600)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} hvd_test_main)
  target_precompile_headers(${name} REUSE_FROM hvd_test_main)
  add_test(NAME ${name} COMMAND ${name})
  # The label tells scripts/run_tests.py that the program counts its own cases.
  set_tests_properties(${name} PROPERTIES LABELS gtest TIMEOUT ${TEST_TIMEOUT})
  if(TEST_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

# hvd_fuzzer(<name> SOURCES … LINK <target>…)
#
# Defines one libFuzzer program in <build>/fuzzers, where scripts/run_fuzzers.py finds it. Its start
# corpus is fuzz_corpus/<name> in any folder of core/, if there is one.
function(hvd_fuzzer name)
  if(NOT HVD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(FUZZER "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${FUZZER_SOURCES})
  target_link_libraries(${name} PRIVATE ${FUZZER_LINK})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzzers")
  add_dependencies(fuzzers ${name})
endfunction()

# hvd_bench(<name> SOURCES … LINK <target>…)
#
# Defines one benchmark program in <build>/bench, where `make bench` finds it.
function(hvd_bench name)
  if(NOT HVD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(BENCH "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${BENCH_SOURCES})
  target_link_libraries(${name} PRIVATE ${BENCH_LINK})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()
