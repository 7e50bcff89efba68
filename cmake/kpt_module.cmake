# One target per folder.
#
# kpt_module(<folder below src>
#   SOURCES a.cpp b.cpp       its files
#   USES base device          our modules, all of lower layers
#   LIBRARIES fmt::fmt …      external libraries
#   TESTS a_test.cpp …        unit tests, linked into one program per module
#   TEST_USES …               further modules that only the tests need
#   ALONE a.cpp …             files not to compile together with others: names inside them meet (every_source, every_test: all)
# )
function(kpt_module folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBRARIES;TESTS;TEST_USES;ALONE" ${ARGN})
  kpt_target_name(${folder} target)
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${target} PRIVATE kpt_compiler_settings PUBLIC ${ARG_LIBRARIES})
  foreach(dependency IN LISTS ARG_USES)
    kpt_check_layer(${folder} ${dependency})
    kpt_target_name(${dependency} dependency_target)
    target_link_libraries(${target} PUBLIC ${dependency_target})
  endforeach()
  kpt_compile_together(${target} every_source ${ARG_ALONE})
  # Optimizing is more than half of the time of a sanitized build (35 s instead of 14 s for one joined source, 23 s instead
  # of 12 s for another), so its presets say -O0, except for what the time of the tests and fuzzers goes into. The hash of
  # files is in base: 4.6 MB/s with -O1, 15 with -O2.
  if(NOT KPT_SANITIZE STREQUAL "none" AND folder STREQUAL "base")
    target_compile_options(${target} PRIVATE -O2)
  elseif(NOT KPT_SANITIZE STREQUAL "none" AND folder MATCHES "^(archive|tensor_files|kernels/.*)$")
    target_compile_options(${target} PRIVATE -O1 -Wno-pass-failed) # clang: checks keep a loop from being unrolled
  endif()
  # What asks others to compute need not be fast itself: 32 s instead of 52 s for one joined source. Kernels for GPUs run
  # on the host in tests alone: 6 s instead of 9 s for one family.
  if(KPT_SANITIZE STREQUAL "none" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    if(folder MATCHES "^(cli|doctor|benchmark|optimize|api|engines/xla|engines/native|backends/.*)$")
      target_compile_options(${target} PRIVATE -O1)
    elseif(folder STREQUAL "kernels/gpu")
      target_compile_options(${target} PRIVATE -O2)
    endif()
  endif()
  # The fuzzer is steered by coverage, which the modules that read files report; it is a quarter of a compiler's time.
  if(KPT_FUZZERS AND folder MATCHES "^(base|config|ir|archive|tensor_files|importer|artifact|compile_cache|backends/amd)$")
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(ARG_TESTS)
    kpt_test(${target}_test SOURCES ${ARG_TESTS} USES ${folder} ${ARG_TEST_USES} ALONE ${ARG_ALONE})
  endif()
endfunction()

function(kpt_target_name folder result)
  string(REPLACE "/" "_" name "kpt_${folder}")
  set(${result} ${name} PARENT_SCOPE)
endfunction()

# Several sources of a target become one for the compiler, which reads their headers once and compiles what they share of
# templates once. Three modules under sanitizers, seconds of processor time: 224 by 8 sources, 118 by 24, 92 by 100; their
# release 282, 204 and 183. Not all in one: machines with many cores would wait for the largest.
function(kpt_compile_together target all)
  if(NOT KPT_JOIN_SOURCES OR "${all}" IN_LIST ARGN)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 32)
  list(REMOVE_ITEM ARGN every_source every_test)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# For targets that call C libraries of others through declarations of their own, whose types have other names there. Clang
# on x86_64 compares the names under UBSan.
function(kpt_declares_foreign_functions)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND NOT KPT_SANITIZE STREQUAL "none")
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -fno-sanitize=function)
    endforeach()
  endif()
endfunction()

# kpt_test(<program> SOURCES … USES … [LIBRARIES …] [LABELS …] [ALONE …] [ONE_PROCESS]): a GoogleTest program, each case its
# own ctest entry; the program is one entry where its cases open libtorch, which takes half a second (ONE_PROCESS: 137 cases
# in 5 s instead of 87), and under sanitizers.
function(kpt_test program)
  cmake_parse_arguments(ARG "ONE_PROCESS" "" "LABELS" ${ARGN})
  kpt_test_program(${program} ${ARG_UNPARSED_ARGUMENTS})
  # Last: of inline functions that both have, the linker takes the first, and GoogleTest's are not instrumented. With its
  # shared_ptr, ThreadSanitizer sees a race where there is none.
  target_link_libraries(${program} PRIVATE GTest::gmock GTest::gtest_main)
  if(KPT_SANITIZE STREQUAL "address" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    target_link_libraries(${program} PRIVATE kpt_leaks_of_children)
  endif()
  # Looking for leaks at the end of a process takes seconds (4 s with g++ 12 on aarch64).
  if(ARG_ONE_PROCESS OR NOT KPT_SANITIZE STREQUAL "none")
    kpt_test_in_shares(${program} "${ARG_LABELS}")
    return()
  endif()
  # PRE_TEST: cases are listed when ctest runs, not during the build, so that a sanitizer's start-up cost and a program
  # that needs a sibling still being built do not break the build.
  # Values of parameters are no names: GoogleTest prints some as bytes with addresses in them.
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 NO_PRETTY_VALUES
    PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}") # kernels for six AMD targets take minutes on a busy machine
endfunction()

# kpt_test_program(<program> SOURCES … USES … [LIBRARIES …] [ALONE …]): a GoogleTest program with a main() of its own, which
# takes arguments: the caller says what it is tested with.
function(kpt_test_program program)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBRARIES;ALONE" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  kpt_compile_together(${program} every_test ${ARG_ALONE})
  if(xla_testing IN_LIST ARG_USES)
    kpt_runs_cpu_plugin(${program}) # before its cases become tests
  endif()
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${KPT_TEST_OUTPUT_DIRECTORY}")
  kpt_test_settings(${program})
  if(KPT_JOIN_SOURCES AND NOT ARG_LIBRARIES) # others have further macros
    target_precompile_headers(${program} REUSE_FROM kpt_test_headers)
  endif()
  target_link_libraries(${program} PRIVATE ${ARG_LIBRARIES})
  foreach(module IN LISTS ARG_USES)
    kpt_target_name(${module} target)
    target_link_libraries(${program} PRIVATE ${target})
  endforeach()
  target_link_libraries(${program} PRIVATE GTest::gtest)
endfunction()

# How the sources of tests are compiled.
function(kpt_test_settings program)
  target_link_libraries(${program} PRIVATE kpt_compiler_settings kpt_tree_paths)
  if(KPT_SANITIZE STREQUAL "none" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # Two thirds of the time (40 s instead of 60 s for a joined one). Not -O0: tests compute references.
    target_compile_options(${program} PRIVATE -O1)
  elseif(KPT_SANITIZE STREQUAL "address")
    # What is tested has its checks; those in the tests' own sources are a quarter of their compiler's time.
    target_compile_options(${program} PRIVATE -fno-sanitize=undefined)
  endif()
  kpt_cache_precompiled(${program})
endfunction()

# What ccache needs to store objects that use a precompiled header.
function(kpt_cache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# What takes a minute or more under sanitizers.
set(KPT_LONG_PROGRAMS kpt_amd_execution_test kpt_backends_amd_test kpt_end_to_end_test kpt_engines_xla_test
  kpt_gate_test kpt_hardware_test kpt_kernels_cpu_test kpt_kernels_gpu_test)

# The program as one ctest entry; a long one under sanitizers as four, which start first, so that no core waits at the end
# for the last of them. Their names are the target's property KPT_ENTRIES.
function(kpt_test_in_shares program labels)
  if(KPT_SANITIZE STREQUAL "none" OR NOT program IN_LIST KPT_LONG_PROGRAMS)
    set(entries ${program})
    add_test(NAME ${program} COMMAND ${program})
  else()
    foreach(share RANGE 3)
      list(APPEND entries ${program}_${share})
      add_test(NAME ${program}_${share} COMMAND ${program})
      set_tests_properties(${program}_${share} PROPERTIES COST 100
        ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${share}")
    endforeach()
  endif()
  set_tests_properties(${entries} PROPERTIES TIMEOUT 2400 LABELS "${labels}")
  set_target_properties(${program} PROPERTIES KPT_ENTRIES "${entries}")
endfunction()

# kpt_fuzzer(<program> SOURCES … USES … SEEDS folder): a libFuzzer program and a ctest entry that runs it for a bounded time.
function(kpt_fuzzer program)
  if(NOT KPT_FUZZERS)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KPT_FUZZERS=ON needs clang; use the preset 'asan'")
  endif()
  cmake_parse_arguments(ARG "" "SEEDS" "SOURCES;USES" ${ARGN})
  add_executable(${program} ${ARG_SOURCES})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${KPT_TEST_OUTPUT_DIRECTORY}")
  target_link_libraries(${program} PRIVATE kpt_compiler_settings -fsanitize=fuzzer)
  target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
  foreach(module IN LISTS ARG_USES)
    kpt_target_name(${module} target)
    target_link_libraries(${program} PRIVATE ${target})
  endforeach()
  if(NOT TARGET kpt_fuzzers)
    add_custom_target(kpt_fuzzers)
  endif()
  add_dependencies(kpt_fuzzers ${program})
  # KPT_FUZZ_SECONDS is read by ctest's shell at run time: 6 s in CI, 20 s otherwise, longer in `make check-full`.
  add_test(NAME fuzz.${program}
    COMMAND "${PROJECT_SOURCE_DIR}/tools/run_fuzzer.sh" "$<TARGET_FILE:${program}>" "${ARG_SEEDS}")
  set_tests_properties(fuzz.${program} PROPERTIES LABELS fuzz TIMEOUT 3600)
endfunction()

# kpt_two_cores(<test>…): tests that compute with threads: two of them, and ctest counts as many. With a thread for each
# core, several such tests on a large machine would wait for each other most of the time.
function(kpt_two_cores)
  set_property(TEST ${ARGN} PROPERTY PROCESSORS 2)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT OMP_NUM_THREADS=2)
endfunction()
