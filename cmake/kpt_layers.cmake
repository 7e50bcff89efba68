# Who stands where. A module may use only modules of lower layers: kpt_module() refuses a link that goes up or sideways,
# tools/check_layers.py (which reads this same table) an include that does.

set(KPT_LAYER_TABLE
  "base            0"
  "config          1"
  "archive         1"
  "ir              1"
  "device          2"
  "tensor_files    2"
  "kernels/cpu     2"
  "kernels/gpu     2"
  "artifact        3"
  "compile_cache   3"
  "importer        3"
  "memory          3"
  "passes          3"
  "numerics        4"
  "engines/aten    4"
  "engines/native  4"
  "engines/xla     4"
  "backends/cpu    5"
  "backends/nvidia 5"
  "backends/amd    5"
  "backends/tpu    5"
  "backends/xla    5"
  "runtime         6"
  "api             7"
  "validation      8"
  "benchmark       8"
  "doctor          8"
  "optimize        9"
  "cli             10"
)

# Folders that may include libtorch headers.
set(KPT_TORCH_FOLDERS src/engines/aten include/kpt/torch.h)

function(kpt_find_layer module result)
  foreach(row IN LISTS KPT_LAYER_TABLE)
    if(row MATCHES "^([^ ]+) +([0-9]+)$" AND CMAKE_MATCH_1 STREQUAL module)
      set(${result} ${CMAKE_MATCH_2} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "module '${module}' has no row in cmake/kpt_layers.cmake")
endfunction()

function(kpt_check_layer module dependency)
  kpt_find_layer(${module} own)
  kpt_find_layer(${dependency} other)
  if(NOT other LESS own)
    message(FATAL_ERROR "layer violation: ${module} (layer ${own}) may not use ${dependency} (layer ${other})")
  endif()
endfunction()
