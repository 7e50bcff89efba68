# kpt-tpu-compile for this machine; where this is not x86_64 and a cross compiler is found, kpt-tpu-compile-x86_64 too,
# which an emulator runs. Both come from two sources that use nothing but the C++ library. Without the cross compiler the
# second is not built, and compiling for TPUs says which package brings it.
add_executable(kpt-tpu-compile tpu_compile_main.cpp "${PROJECT_SOURCE_DIR}/src/engines/xla/pjrt/topology_compile.cpp")
target_include_directories(kpt-tpu-compile PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(kpt-tpu-compile PRIVATE kpt_compiler_settings ${CMAKE_DL_LIBS})
kpt_declares_foreign_functions(kpt-tpu-compile)
set_target_properties(kpt-tpu-compile PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${KPT_HELPER_OUTPUT_DIRECTORY}")
add_custom_target(kpt_tpu_compile_programs DEPENDS kpt-tpu-compile)
install(TARGETS kpt-tpu-compile RUNTIME DESTINATION libexec/kpt)

set(KPT_X86_64_COMPILER "")
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  find_program(KPT_X86_64_COMPILER_IN_PATH x86_64-linux-gnu-g++)
  mark_as_advanced(KPT_X86_64_COMPILER_IN_PATH)
  if(KPT_X86_64_COMPILER_IN_PATH)
    set(KPT_X86_64_COMPILER "${KPT_X86_64_COMPILER_IN_PATH}")
  else()
    message(STATUS "kpt-tpu-compile-x86_64 is not built: no x86_64-linux-gnu-g++ (Debian package g++-x86-64-linux-gnu)")
  endif()
endif()
if(KPT_X86_64_COMPILER)
  set(foreign "${KPT_HELPER_OUTPUT_DIRECTORY}/kpt-tpu-compile-x86_64")
  set(foreign_sources "${CMAKE_CURRENT_SOURCE_DIR}/tpu_compile_main.cpp"
    "${PROJECT_SOURCE_DIR}/src/engines/xla/pjrt/topology_compile.cpp")
  file(GLOB foreign_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/engines/xla/pjrt/pjrt_*.h")
  add_custom_command(OUTPUT "${foreign}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${KPT_HELPER_OUTPUT_DIRECTORY}"
    COMMAND "${KPT_X86_64_COMPILER}" -std=c++20 -O1 -s -static-libstdc++ -static-libgcc
      "-I${PROJECT_SOURCE_DIR}/src" ${foreign_sources} -ldl -o "${foreign}"
    DEPENDS ${foreign_sources} ${foreign_headers} "${PROJECT_SOURCE_DIR}/src/engines/xla/pjrt/topology_compile.h"
      "${CMAKE_CURRENT_SOURCE_DIR}/exit_code.h"
    COMMENT "Building kpt-tpu-compile-x86_64 with the cross compiler" VERBATIM)
  add_custom_target(kpt_tpu_compile_x86_64 DEPENDS "${foreign}")
  add_dependencies(kpt_tpu_compile_programs kpt_tpu_compile_x86_64)
  install(PROGRAMS "${foreign}" DESTINATION libexec/kpt)
endif()
