// HIP source → a code object for one gfx target, by a clang that knows the target, in a child process.
//
// The source includes nothing but the files it brings along: no header and no library of ROCm is needed, so a clang of
// the distribution is enough (clang 19 for all targets but gfx950, which needs 22).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/architecture.h"
#include "base/environment.h"
#include "compile_cache/compile_cache.h"
#include "device/compile_figures.h"
#include "kernels/gpu/kernel_sources.h"
#include "kpt/status.h"

namespace kpt {

struct HipFile {
  std::string path;  // as it is included, "kernels/gpu/simt.h"; without ".."
  std::string text;
};

struct HipSource {
  std::string name;  // "norm.hip": what errors name; a plain file name
  std::string text;
  std::vector<HipFile> headers;
};

// Our own kernels of one family (kernels/gpu/kernel_sources.h). Fails with kNotFound.
Result<HipSource> own_kernels(std::string_view family);
// Says whether code was made of the same source: 64 hexadecimal digits over all files.
std::string source_digest(const HipSource& source);
// Whether the family's kernels are for the target.
bool runs_family(const AmdArchitecture& architecture, const gpu::KernelFamily& family);

struct HipCompiler {
  std::string path;
  std::string version;  // the first line of --version: part of every cache key
};

// Which compiler makes the code for a target, or why none does.
struct HipCompilerChoice {
  std::optional<HipCompiler> compiler;
  std::string reason;  // one clause; empty when there is a compiler
};

inline constexpr std::chrono::milliseconds kHipQuestionLimit{10000};

// For each target the first compiler that accepts it and finds lld: ROCm's (ROCM_PATH, /opt/rocm, PATH), then
// clang++-22, -21, -20, -19 of the system, then a clang++ that says it is 19 or newer, or ROCm's. `question_limit`
// bounds each question to a compiler.
std::vector<HipCompilerChoice> find_hip_compilers(const Environment& environment,
                                                  std::span<const std::string> gfx_targets,
                                                  std::chrono::milliseconds question_limit = kHipQuestionLimit);

// The same for one target. Fails with kUnsupported and what to install, kInvalidArchitecture for a target that the
// table does not have.
Result<HipCompiler> find_hip_compiler(const Environment& environment, std::string_view gfx_target);

// All that the compiler is told for a target but the paths, in its order.
std::vector<std::string> hip_options(const AmdArchitecture& architecture);

// Compiles in a folder of its own below the system's temporary one. Fails with
//   kKernelCompilation (HipCompilationError): file, line and the compiler's text are in the message and in the details;
//   kCompilationTimeout: killed at the limit;
//   kInvalidArchitecture: no such target in the table;
//   kIo, kNotFound: no place to write, no such compiler.
// The kernel sees KPT_WAVE, the target's wavefront size, and KPT_SIMD_REGISTERS, the vector registers of a lane over
// all waves of a SIMD, both from the table. What comes back was read by read_code_object(). `options`: for the
// compiler, after its own and trusted as they are (amd.compile_options takes known words only).
Result<std::string> compile_hip(const HipCompiler& compiler, const HipSource& source, std::string_view gfx_target,
                                std::chrono::milliseconds time_limit, const std::vector<std::string>& options = {});

// The same as assembly text: what instructions a kernel became. Fails as compile_hip() does.
Result<std::string> hip_assembly(const HipCompiler& compiler, const HipSource& source, std::string_view gfx_target,
                                 std::chrono::milliseconds time_limit);

// What compiled code depends on. `options`: hip_options(), and the further ones after them.
CacheKey hip_cache_key(const HipCompiler& compiler, const HipSource& source, std::span<const std::string> options);

// compile_hip() with results kept between processes. Safe to call from several threads; two that ask for the same thing
// at once compile it twice.
class HipCompileCache {
 public:
  // `cache` may be null (nothing is kept) and must outlive this object. `options` as for compile_hip(); what was made
  // with others is not taken.
  HipCompileCache(HipCompiler compiler, CompileCache* cache, std::chrono::milliseconds time_limit,
                  std::vector<std::string> options = {})
      : compiler_(std::move(compiler)), cache_(cache), time_limit_(time_limit), options_(std::move(options)) {}

  // An entry that is not a sound code object for the target is compiled anew. Trouble with the cache is logged and
  // costs time only.
  Result<std::string> compile(const HipSource& source, std::string_view gfx_target);
  CompileStatistics statistics() const;
  const HipCompiler& compiler() const { return compiler_; }

 private:
  std::optional<std::string> find_kept(const CacheKey& key, std::string_view gfx_target);

  HipCompiler compiler_;
  CompileCache* cache_;
  std::chrono::milliseconds time_limit_;
  std::vector<std::string> options_;
  mutable std::mutex mutex_;
  CompileStatistics statistics_;
};

}  // namespace kpt
