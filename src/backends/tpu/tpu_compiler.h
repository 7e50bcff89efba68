// StableHLO text becomes an executable for a TPU topology: out of the compile cache, or by libtpu in a process of its
// own. No TPU is needed.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "backends/tpu/libtpu.h"
#include "backends/tpu/topology.h"
#include "compile_cache/compile_cache.h"
#include "device/backend_context.h"
#include "device/compile_figures.h"
#include "engines/xla/pjrt/topology_process.h"
#include "kpt/status.h"

namespace kpt {

// The key of an entry holds all that an executable depends on: module, compile options, topology, libtpu (its package's
// version, size and time of its file) and the variables with which users pass options to it. An entry that cannot be
// read is compiled anew; a cache that cannot be used is a warning in the log. Thread safe.
class TpuCompiler {
 public:
  explicit TpuCompiler(const BackendContext& context) : context_(context) {}

  // Fails with kNotFound when libtpu is not installed, and as pjrt::compile_topology_in_child() does.
  Result<pjrt::TopologyProgram> compile(const TpuTopology& topology, const std::string& module_text) const;

  // For a TPU that is here and that this process holds: with these options of encode_compile_options(), under the time
  // limit pjrt.compile_timeout_ms, and without the cache, which the caller has. Gives what Client::deserialize() takes.
  Result<std::string> compile_beside_client(const TpuTopology& topology, const std::string& module_text,
                                            const std::string& compile_options) const;

  // What programs for that topology took since this was made.
  CompileStatistics statistics(const TpuTopology& topology) const;

 private:
  Result<Libtpu> find_usable_libtpu() const;
  Result<pjrt::TopologyProgram> compile_in_child(const TpuTopology& topology, const Libtpu& libtpu,
                                                 const pjrt::TopologyRequest& request,
                                                 const pjrt::TopologyLimits& limits) const;
  CacheKey make_key(const pjrt::TopologyRequest& request, const Libtpu& libtpu) const;

  BackendContext context_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, CompileStatistics> statistics_;  // by target
};

}  // namespace kpt
