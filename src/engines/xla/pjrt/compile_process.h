// Compiling in a process of its own: PJRT cannot cancel a compilation, and a compiler that crashes takes its process
// with it. The child (kpt-pjrt-compile) opens the plugin, compiles, and hands back the serialized executable.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"

namespace kpt::pjrt {

struct CompileRequest {
  std::string plugin_path;
  std::string plugin_name;  // for messages
  std::vector<ClientOption> client_options;
  std::string module_text;      // StableHLO
  std::string compile_options;  // of encode_compile_options()
};

// What Client::deserialize() takes on a client with the same plugin and options. Fails with kCompilationTimeout when
// the child was killed at the limit, with kCompilation when it crashed, with kNotFound when the helper is not
// installed, and as Client::create(), compile() and serialize() do.
Result<std::string> compile_in_child(const CompileRequest& request, std::chrono::milliseconds time_limit,
                                     const Environment& environment);

// The child's side: reads a request from `request_path`, writes the bytes to `result_path`. The failure comes back
// through describe_failure().
Status serve_compile_request(const std::string& request_path, const std::string& result_path);
std::string describe_failure(const Status& failure);

}  // namespace kpt::pjrt
