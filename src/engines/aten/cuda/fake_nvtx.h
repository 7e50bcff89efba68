// A profiler that writes down the ranges it hears of: a library that NVTX opens when NVTX_INJECTION64_PATH names it.
#pragma once

#include <string>

// "domain>name" for a range that begins, "<" for one that ends, one word after the other, since it was asked last.
extern "C" [[gnu::visibility("default")]] void fake_nvtx_take(std::string* heard);
