#pragma once

// Which sanitizer this file is compiled with, and its interface; GCC and clang say it in different ways.

#if defined(__SANITIZE_ADDRESS__)
#define KPT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KPT_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define KPT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KPT_THREAD_SANITIZER 1
#endif
#endif

#if defined(KPT_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(KPT_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif
