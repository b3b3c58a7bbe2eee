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
endfunction()

# hvd_test(<name> SOURCES … LINK <target>…)
#
# One test program. Its main() ends a test that runs longer than its time limit; the limit here is
# only the backstop for the whole program.
function(hvd_test name)
  if(NOT HVD_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 600)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINK} hvd_test_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT})
endfunction()
