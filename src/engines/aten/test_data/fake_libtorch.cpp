// Stands in for libtorch_cpu.so (and libc10.so) in the loader's tests: it has a version and nothing else.
#include <cstdint>

#ifdef FAKE_MINOR
extern "C" [[gnu::visibility("default")]] std::uint64_t aoti_torch_abi_version() {
  return (2ULL << 56) | (static_cast<std::uint64_t>(FAKE_MINOR) << 48);
}
#else
extern "C" [[gnu::visibility("default")]] int kpt_fake_without_version() { return 0; }
#endif
