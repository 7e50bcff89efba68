#include "module_runner.h"

#include <map>

#include "engines/xla/pjrt/client.h"
#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/testing/run_stablehlo.h"

namespace kpt::xla_test {
namespace {

class PluginRunner : public ModuleRunner {
 public:
  explicit PluginRunner(std::shared_ptr<const pjrt::Client> client) : client_(std::move(client)) {}

  Result<std::vector<Tensor>> run(const xla::LoweredModule& module, std::span<const Tensor> inputs) override {
    KPT_ASSIGN_OR_RETURN(const auto executable, compile(module.text));
    std::vector<std::shared_ptr<pjrt::DeviceBuffer>> buffers;
    std::vector<std::vector<const pjrt::DeviceBuffer*>> arguments(1);
    for (const Tensor& input : inputs) {
      KPT_ASSIGN_OR_RETURN(auto buffer, client_->upload(input, pjrt::HostMemory::kCopied));
      arguments[0].push_back(buffer.get());
      buffers.push_back(std::move(buffer));
    }
    KPT_ASSIGN_OR_RETURN(pjrt::Execution execution, executable->execute(arguments));
    KPT_RETURN_IF_ERROR(execution.wait());
    std::vector<Tensor> outputs;
    for (const auto& buffer : execution.outputs[0]) {
      KPT_ASSIGN_OR_RETURN(Tensor output, buffer->download());
      outputs.push_back(std::move(output));
    }
    return outputs;
  }

 private:
  Result<std::shared_ptr<const pjrt::LoadedExecutable>> compile(const std::string& text) {
    const auto found = compiled_.find(text);
    if (found != compiled_.end()) return found->second;
    pjrt::CompileSettings settings;
    settings.flags.emplace_back("xla_cpu_enable_fast_min_max", false);  // lower.h says why
    KPT_ASSIGN_OR_RETURN(auto executable, client_->compile(text, pjrt::encode_compile_options(settings)));
    if (compiled_.size() >= 8) compiled_.clear();
    compiled_.emplace(text, executable);
    return executable;
  }

  std::shared_ptr<const pjrt::Client> client_;
  std::map<std::string, std::shared_ptr<const pjrt::LoadedExecutable>> compiled_;
};

}  // namespace

Result<std::unique_ptr<ModuleRunner>> ModuleRunner::open() {
  KPT_ASSIGN_OR_RETURN(auto client, testing::cpu_client());
  return std::unique_ptr<ModuleRunner>(std::make_unique<PluginRunner>(std::move(client)));
}

}  // namespace kpt::xla_test
