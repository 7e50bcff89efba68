# Language, warnings and sanitizers for our own targets: link kpt_compiler_settings.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The build tree mirrors the install tree, so programs find their helpers and modules the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/archive")
set(KPT_HELPER_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/libexec/kpt")
set(KPT_MODULE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/kpt")
set(KPT_TEST_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test_bin")

find_program(KPT_CCACHE ccache)
if(KPT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KPT_CCACHE}")
endif()

add_library(kpt_compiler_settings INTERFACE)
target_compile_options(kpt_compiler_settings INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wimplicit-fallthrough -Wundef)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kpt_compiler_settings INTERFACE -Wduplicated-cond -Wlogical-op)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 sees overlapping copies in std::string's operator+ where there are none (its bug 105651).
    target_compile_options(kpt_compiler_settings INTERFACE -Wno-restrict)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT KPT_SANITIZE STREQUAL "none")
  # Under sanitizers GCC's flow-based warnings are often wrong (seen: maybe-uninitialized inside std::variant). These few
  # are shown but do not stop the build; the builds without sanitizers judge them.
  foreach(warning IN ITEMS maybe-uninitialized array-bounds stringop-overflow stringop-overread free-nonheap-object)
    target_compile_options(kpt_compiler_settings INTERFACE -Wno-error=${warning})
  endforeach()
endif()
# Two clones share ccache entries only if no absolute path of the clone is part of the result.
target_compile_options(kpt_compiler_settings INTERFACE "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")

if(KPT_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 13 puts vectors of 64 bytes at any multiple of 32 in the stacks by which it finds uses after a return, and then
    # reads them with instructions that fault there (GCC's bug 110027).
    add_compile_options("SHELL:--param asan-use-after-return=0")
  else()
    # UBSan's checks in templates of other libraries: a fifth of the compiler's time, half of an object's size. GCC's build
    # (asan-full) has them. Not all of /usr: a clone may lie below it; clang names the headers of libstdc++ from its own
    # folder. The compiler starts in the build folder, and ccache sees the same words in every clone; it does not read the
    # file, so a hash of its text is in the name.
    set(ubsan_ignores "[undefined]\nsrc:/usr/include/*\nsrc:/usr/lib/*\nsrc:*/bin/../lib/*\n")
    string(SHA256 ubsan_ignores_key "${ubsan_ignores}")
    string(SUBSTRING "${ubsan_ignores_key}" 0 8 ubsan_ignores_key)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/ubsan_ignores_${ubsan_ignores_key}.txt" CONTENT "${ubsan_ignores}")
    add_compile_options(-fsanitize-ignorelist=ubsan_ignores_${ubsan_ignores_key}.txt)
  endif()
elseif(KPT_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()
# Each of fifty sanitized programs is 200 MB: lld links one in 1.1 s of processor time, ld in 3.7 s. The set-up wishes for
# it, to compile for AMD GPUs.
if(NOT KPT_SANITIZE STREQUAL "none" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  find_program(KPT_LLD ld.lld-22 ld.lld)
  mark_as_advanced(KPT_LLD)
  if(KPT_LLD)
    add_link_options("--ld-path=${KPT_LLD}")
  endif()
endif()

find_package(Threads REQUIRED)
