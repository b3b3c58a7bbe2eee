# SPDX-License-Identifier: Apache-2.0
# Parsing headers is half of what compiling costs, and Google Test the largest part. Tests share one
# parsed set of headers. With HVD_FAST_BUILD the layers share another, and their sources are compiled
# several at a time; without it, as in the preset dev, each proves that it includes what it uses.
set(HVD_COMMON_HEADERS
  <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <vector>
  <fmt/format.h>)

# hvd_layer(<name> SOURCES … [DEPENDS <layer>…] [LINK <target>…])
#
# One layer of core/ as the static library hvd_<name>. It sees the layers named in DEPENDS and no
# others; tests/layers_test.py holds the #include lines to the same rule.
function(hvd_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(hvd_${name} STATIC ${LAYER_SOURCES})
  target_include_directories(hvd_${name} PUBLIC "${PROJECT_SOURCE_DIR}/core")
  list(TRANSFORM LAYER_DEPENDS PREPEND hvd_)
  target_link_libraries(hvd_${name} PUBLIC ${LAYER_DEPENDS} ${LAYER_LINK})
  if(HVD_FUZZERS)  # a layer counts its branches: a fuzzer sees what an input reached
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
# One test program. Its main() ends a test that runs longer than its time limit; the limit here is
# only the backstop for the whole program. SERIAL keeps other programs away while it runs.
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
# One libFuzzer program, in <build>/fuzzers where scripts/run_fuzzers.py finds it. It starts from
# the inputs in fuzz_corpus/<name> of any folder of core/, if there are some.
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
# One benchmark program, in <build>/bench where `make bench` finds it.
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
