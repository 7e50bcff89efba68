# Libraries from the system's package manager. A missing one is named together with the command that installs it.

function(kpt_require package debian_name)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is missing. 'make setup' installs it (Debian and Ubuntu: ${debian_name}).")
  endif()
endfunction()

kpt_require(fmt libfmt-dev)
kpt_require(spdlog libspdlog-dev)
kpt_require(nlohmann_json nlohmann-json3-dev)
kpt_require(CLI11 libcli11-dev)
kpt_require(yaml-cpp libyaml-cpp-dev)
kpt_require(ZLIB zlib1g-dev)
kpt_require(GTest "libgtest-dev libgmock-dev")
if(KPT_BENCHMARKS)
  kpt_require(benchmark libbenchmark-dev)
endif()

# yaml-cpp 0.8 renamed its target.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
include(GoogleTest)
