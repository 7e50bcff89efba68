# Shows that kpt_module() refuses a link that goes up or sideways, and none that goes down.
#   cmake -P cmake/kpt_layers_test.cmake
# Each link is asked for in a script of its own, this one with MODULE and USES, in which targets are nothing.
if(DEFINED MODULE)
  include("${CMAKE_CURRENT_LIST_DIR}/kpt_layers.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/kpt_module.cmake")
  foreach(command IN ITEMS add_library target_include_directories target_link_libraries kpt_compile_together)
    cmake_language(EVAL CODE "function(${command})\nendfunction()")
  endforeach()
  set(KPT_SANITIZE none)
  kpt_module(${MODULE} USES ${USES})
  return()
endif()

# expect(<module> <its dependency> <words of the refusal; none: it is taken>)
function(expect module dependency words)
  execute_process(COMMAND "${CMAKE_COMMAND}" -DMODULE=${module} -DUSES=${dependency} -P "${CMAKE_CURRENT_LIST_FILE}"
    RESULT_VARIABLE code ERROR_VARIABLE complaint)
  string(REGEX REPLACE "[ \n]+" " " complaint "${complaint}")
  string(FIND "${complaint}" "${words}" place)
  if(words STREQUAL "" AND NOT code EQUAL 0)
    message(FATAL_ERROR "${module} may use ${dependency}, but: ${complaint}")
  elseif(NOT words STREQUAL "" AND (code EQUAL 0 OR place EQUAL -1))
    message(FATAL_ERROR "${module} with ${dependency} ended with ${code}, without '${words}': ${complaint}")
  endif()
endfunction()

expect(device base "")
expect(cli engines/aten "")
expect(base device "layer violation: base (layer 0) may not use device (layer 2)")
expect(archive config "layer violation: archive (layer 1) may not use config (layer 1)")
expect(engines/xla runtime "layer violation: engines/xla (layer 4) may not use runtime (layer 6)")
expect(device extras "module 'extras' has no row in cmake/kpt_layers.cmake")
message("links: two taken, four refused")
