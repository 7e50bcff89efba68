// A model compiled ahead of time by the plugin of a device that is here, and what was stored so when it is loaded
// again.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/backend_context.h"
#include "device/compile_figures.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/execution/xla_device.h"

namespace kpt {

// The stored form of what compile_ahead() makes. Its conditions are those of module_compiler.h, as JSON.
inline constexpr AheadForm kXlaAheadForm = {"kpt-xla-executable", 2};

// Compiles for these sizes and one device, with the context's cache, time limit and threads; what was done is added to
// `counts`. Figures that the plugin fails to tell are absent, with a line in the log. Fails with kInvalidArgument for
// sizes that are missing or out of range, as xla::lower(), XlaDevice::client() and ModuleCompiler::compile_serialized()
// do.
Result<std::unique_ptr<Program>> compile_ahead(XlaDevice& device, ir::Graph graph, const ir::Bindings& sizes,
                                               const BackendContext& context, CompileStatistics& counts);

// Loads what compile_ahead() made: its executable where plugin, platform, kind of device, processor, compile options
// and module are those that it was made with, and otherwise compiled anew, with a line in the log. Fails as
// load_on_device() does.
Result<std::unique_ptr<Executable>> load_ahead(XlaDevice& device, const AheadProgram& program, const Weights& weights,
                                               const BackendContext& context);

// The executable with its sizes for `graph`; nothing, with a line in the log, where `misfit` says why it is not for
// this machine (one clause; empty when it is) and where its sizes cannot be read.
std::optional<StoredExecutable> take_stored(const AheadProgram& program, const ir::Graph& graph,
                                            const std::string& misfit);

}  // namespace kpt
