# The kernels for NVIDIA GPUs: kpt_kernels_gpu_cuda, compiled by nvcc where it is, for builds with CUDA parts. The target
# kpt_cuda_kernels builds them, or says why there are none.
#
# By commands of our own and not by CMake's language CUDA: that one must be told an architecture before it can test the
# compiler, and 3.25 does not know which ones nvcc 13 has given up.
if(KPT_CUDA STREQUAL "OFF")
  return()
endif()
find_program(KPT_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin)
mark_as_advanced(KPT_NVCC)
if(NOT KPT_NVCC)
  message(STATUS "our own CUDA kernels are not compiled: nvcc is not in PATH, CUDA_HOME or /usr/local/cuda")
  add_custom_target(kpt_cuda_kernels
    COMMAND ${CMAKE_COMMAND} -E echo "our own CUDA kernels are not compiled: nvcc is not in PATH, CUDA_HOME or /usr/local/cuda")
  return()
endif()

# Of the architectures that kernels are made for, those that this nvcc knows, and the text form of the last one, from
# which drivers make code for newer GPUs.
execute_process(COMMAND "${KPT_NVCC}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
set(code_flags)
set(newest)
set(wanted ${KPT_CUDA_GPUS})
if(wanted STREQUAL "all")
  set(wanted 80 90 100 120)
endif()
foreach(number IN LISTS wanted)
  if(known MATCHES "sm_${number}\n")
    list(APPEND code_flags -gencode=arch=compute_${number},code=sm_${number})
    set(newest ${number})
  endif()
endforeach()
if(NOT newest)
  message(FATAL_ERROR "${KPT_NVCC} compiles for none of the architectures KPT_CUDA_GPUS=${KPT_CUDA_GPUS}")
endif()
list(APPEND code_flags -gencode=arch=compute_${newest},code=compute_${newest})
get_filename_component(cuda_root "${KPT_NVCC}" REALPATH)
get_filename_component(cuda_root "${cuda_root}/../.." ABSOLUTE)

# The objects of all families, in waves of that many lanes; their functions are <prefix>_<family>_kernels().
function(kpt_cuda_objects result prefix wave)
  set(objects)
  foreach(family IN LISTS families cuda_families)
    string(TOUPPER ${family} FAMILY)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${prefix}_${family}_kernels.cu")
    configure_file(cuda_kernels.cu.in "${source}" @ONLY)
    add_custom_command(OUTPUT "${source}.o"
      COMMAND "${KPT_NVCC}" -c "${source}" -o "${source}.o" -std=c++20 -O3 -Xcompiler=-fPIC,-Wall,-fvisibility=hidden
        --Werror=all-warnings ${code_flags} "-I${PROJECT_SOURCE_DIR}/src" "-I${PROJECT_SOURCE_DIR}/include"
        -MD -MF "${source}.d"
      DEPENDS "${source}" DEPFILE "${source}.d"
      COMMENT "nvcc ${prefix}_${family}_kernels" VERBATIM)
    list(APPEND objects "${source}.o")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${result} ${objects} PARENT_SCOPE)
endfunction()
kpt_cuda_objects(cuda_objects cuda 32)

add_library(kpt_kernels_gpu_cuda STATIC cuda_launcher.cpp ${cuda_objects})
target_include_directories(kpt_kernels_gpu_cuda SYSTEM PRIVATE "${cuda_root}/include")
target_link_libraries(kpt_kernels_gpu_cuda PRIVATE kpt_compiler_settings PUBLIC kpt_kernels_gpu)
add_custom_target(kpt_cuda_kernels DEPENDS kpt_kernels_gpu_cuda)

# The tests of the kernels once more, on a GPU; without one each says so and is skipped. They run in waves of 32, as the
# product does, and in AMD's of 64: forms of the kernels that no product has.
find_library(KPT_CUDART_STATIC cudart_static HINTS "${cuda_root}/lib64" "${cuda_root}/lib" NO_DEFAULT_PATH)
mark_as_advanced(KPT_CUDART_STATIC)
if(KPT_CUDART_STATIC)
  kpt_cuda_objects(wave64_objects cuda_wave64 64)
  add_library(kpt_kernels_gpu_cuda_wave64 STATIC EXCLUDE_FROM_ALL cuda_wave64_launcher.cpp ${wave64_objects})
  target_link_libraries(kpt_kernels_gpu_cuda_wave64 PRIVATE kpt_compiler_settings PUBLIC kpt_kernels_gpu_cuda)
  kpt_test(kpt_kernels_gpu_cuda_test
    SOURCES cuda_test_device.cpp gpu_testing.cpp activation_test.cpp blind_rows_test.cpp convert_test.cpp
      elementwise_test.cpp embedding_test.cpp gather_test.cpp norm_backward_test.cpp norm_test.cpp product_test.cpp
      reduce_test.cpp rotary_test.cpp softmax_test.cpp transpose_test.cpp weight_only_test.cpp
    USES kernels/gpu
    LIBRARIES kpt_kernels_gpu_cuda_wave64 "${KPT_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt
    LABELS gpu)
  target_include_directories(kpt_kernels_gpu_cuda_test SYSTEM PRIVATE "${cuda_root}/include")
  if(KPT_BENCHMARKS)
    add_executable(kpt_gpu_norm_benchmark cuda_norm_benchmark.cpp)
    target_include_directories(kpt_gpu_norm_benchmark SYSTEM PRIVATE "${cuda_root}/include")
    target_link_libraries(kpt_gpu_norm_benchmark PRIVATE
      kpt_compiler_settings kpt_kernels_gpu_cuda "${KPT_CUDART_STATIC}" Threads::Threads ${CMAKE_DL_LIBS} rt)
  endif()
endif()
