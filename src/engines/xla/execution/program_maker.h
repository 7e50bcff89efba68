// What a loaded model's programs are made with, by sizes. It owns all that it uses, so that it can go on by itself when
// nobody waits for a program any more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/call_threads.h"
#include "engines/xla/execution/matrix_precision.h"
#include "engines/xla/execution/module_compiler.h"
#include "engines/xla/execution/shape_programs.h"
#include "engines/xla/execution/sharding.h"
#include "engines/xla/execution/xla_run.h"
#include "engines/xla/pjrt/client.h"
#include "ir/symbolic.h"
#include "kpt/status.h"

namespace kpt {

// What another process made of the graph for one set of sizes.
struct StoredExecutable {
  ir::Bindings sizes;  // of the graph's symbols
  std::string module;  // of hash_module()
  std::string bytes;   // that Client::deserialize() takes
};

// Thread safe.
struct ProgramMaker {
  std::shared_ptr<const XlaModel> model;
  std::shared_ptr<const ModuleCompiler> compiler;
  ShardPlan shards;
  std::string matrix_precision{kHighestPrecision};
  // Refuses a program by the memory that it needs; empty: none is. Not asked where the plugin does not tell.
  std::function<Status(const pjrt::ProgramMemory& memory)> check_memory;
  std::shared_ptr<CallThreads> threads;  // that let go what is refused, within `call_limit`
  std::chrono::milliseconds call_limit = kLongestCall;

  // `stored`: bytes that may spare the compiler, left aside, with a line in the log, where they were made of another
  // module; null: none. Fails as ModuleCompiler::compile(), ShardPlan::cut() and check_memory do.
  Result<ShapePrograms::Program> make(const ir::Bindings& sizes, const StoredExecutable* stored) const;

 private:
  const ir::Graph& graph() const { return model->program->graph(); }
  std::string write_module(const xla::LoweredModule& module, const ModuleCuts& cuts) const;
  Result<CompiledModule> find_executable(const ShapeProgram& made, const StoredExecutable* stored) const;
  Status check_module(const xla::LoweredModule& module, std::size_t outputs) const;
  Status check_needs(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const;
};

}  // namespace kpt
