#include "engines/xla/testing/run_stablehlo.h"

#include "base/files.h"
#include "engines/xla/pjrt/compile_options.h"
#include "engines/xla/pjrt/host_flags.h"

namespace kpt::testing {
namespace {

// Of a program that was started by hand; ctest's goes through the script.
bool would_use_hidden_sve() { return pjrt::hides_sve(SystemFiles().read("/proc/cpuinfo").value_or("")); }

}  // namespace

std::string cpu_plugin_path() {
  if (would_use_hidden_sve()) return "";
  return KPT_CPU_PLUGIN;  // empty as well where there is none
}
std::string why_no_cpu_plugin() {
  if (!would_use_hidden_sve() || std::string(KPT_CPU_PLUGIN).empty()) return KPT_NO_CPU_PLUGIN;
  return "this machine hides SVE, which XLA's CPU compiler would use; start it by tools/with_plain_cpuinfo.sh";
}

Result<std::shared_ptr<const pjrt::Client>> cpu_client() {
  // Its threads may outlive main(): what they use stays.
  static const auto* const kClient =
      new Result<std::shared_ptr<const pjrt::Client>>([]() -> Result<std::shared_ptr<const pjrt::Client>> {
        if (cpu_plugin_path().empty()) return Status(StatusCode::kNotFound, why_no_cpu_plugin());
        KPT_ASSIGN_OR_RETURN(auto plugin, pjrt::Plugin::open(cpu_plugin_path(), "cpu"));
        const pjrt::ClientOption options[] = {{"cpu_device_count", std::int64_t{4}}};
        return pjrt::Client::create(std::move(plugin), options);
      }());
  return *kClient;
}

Result<std::vector<Tensor>> run_stablehlo(std::string_view text, std::span<const Tensor> inputs) {
  KPT_ASSIGN_OR_RETURN(const auto client, cpu_client());
  KPT_ASSIGN_OR_RETURN(const auto executable, client->compile(text, pjrt::encode_compile_options({})));
  std::vector<std::shared_ptr<pjrt::DeviceBuffer>> buffers;
  std::vector<std::vector<const pjrt::DeviceBuffer*>> arguments(1);
  for (const Tensor& input : inputs) {
    KPT_ASSIGN_OR_RETURN(auto buffer, client->upload(input, pjrt::HostMemory::kCopied));
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

}  // namespace kpt::testing
