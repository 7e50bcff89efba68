# PJRT's CPU plugin in the Python environment, for tests: the package xla-cpu-pjrt holds the library and the interface's
# header. Results: KPT_CPU_PLUGIN and KPT_PJRT_INCLUDE, both empty when the package is not there, and KPT_NO_CPU_PLUGIN,
# why the plugin cannot be used.
set(KPT_CPU_PLUGIN "")
set(KPT_PJRT_INCLUDE "")
set(KPT_NO_CPU_PLUGIN "the Python environment (KPT_PYTHON) has no package xla-cpu-pjrt")
set(pjrt_python "${KPT_PYTHON}")
if(NOT pjrt_python)
  find_program(KPT_PYTHON_IN_PATH python3)
  mark_as_advanced(KPT_PYTHON_IN_PATH)
  set(pjrt_python "${KPT_PYTHON_IN_PATH}")
endif()
if(pjrt_python)
  execute_process(COMMAND "${pjrt_python}" -c "import sysconfig; print(sysconfig.get_paths()['platlib'])"
    OUTPUT_VARIABLE pjrt_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE pjrt_failed TIMEOUT 60)
  set(pjrt_folder "${pjrt_packages}/xla_plugins/xla_cpu_pjrt")
  if(NOT pjrt_failed AND EXISTS "${pjrt_folder}/xla_cpu_pjrt.so")
    set(KPT_CPU_PLUGIN "${pjrt_folder}/xla_cpu_pjrt.so")
    if(EXISTS "${pjrt_folder}/include/pjrt_c_api.h")
      set(KPT_PJRT_INCLUDE "${pjrt_folder}/include")
    endif()
  endif()
endif()
# On a core that has SVE while the kernel hides it, code of XLA's CPU compiler dies of an illegal instruction
# (src/engines/xla/pjrt/host_flags.h): tests that run it are started through a script that shows them a plain core.
set(KPT_CPU_PLUGIN_LAUNCHER "")
if(KPT_CPU_PLUGIN AND EXISTS /proc/cpuinfo)
  file(READ /proc/cpuinfo cpuinfo)
  if(cpuinfo MATCHES "CPU part[^\n]*0xd(40|49|4f|83|84|8e)" AND NOT cpuinfo MATCHES "Features[^\n]* sve")
    set(KPT_CPU_PLUGIN_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/with_plain_cpuinfo.sh")
    set(pjrt_failed "this machine hides SVE, and what runs under a sanitizer is not started by a script")
    if(KPT_SANITIZE STREQUAL "none")
      execute_process(COMMAND "${KPT_CPU_PLUGIN_LAUNCHER}" true ERROR_VARIABLE pjrt_failed
        ERROR_STRIP_TRAILING_WHITESPACE TIMEOUT 60)
    endif()
    if(pjrt_failed)
      # It becomes a text in C++, by way of a list and a shell.
      string(REGEX REPLACE "[;\"'\\\n$`]" "," KPT_NO_CPU_PLUGIN "${pjrt_failed}")
      set(KPT_CPU_PLUGIN "")
      set(KPT_CPU_PLUGIN_LAUNCHER "")
    endif()
  endif()
endif()
if(NOT KPT_CPU_PLUGIN)
  message(STATUS "tests that run XLA programs are skipped: ${KPT_NO_CPU_PLUGIN}")
endif()

# Tests that are this program are started so that they can run the CPU plugin; kpt_test() does it for those that use
# xla_testing.
function(kpt_runs_cpu_plugin program)
  # CMake before 3.29 knows the second only, later ones take it when cross compiling only.
  set_target_properties(${program} PROPERTIES TEST_LAUNCHER "${KPT_CPU_PLUGIN_LAUNCHER}"
    CROSSCOMPILING_EMULATOR "${KPT_CPU_PLUGIN_LAUNCHER}")
endfunction()
