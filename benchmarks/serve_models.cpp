// Our side of compare.py, compare_models.py, load_model.py and tiny_chain.py: obeys commands on standard input, a JSON
// line each.
//
//   load FILE [CASES_FILE] [CASE]   {"load_seconds": …, "anonymous_bytes": …}
//   run N [STEPS]                   {"times_ms": […]} of N runs; with STEPS, the buffers that the model writes go back
//   to
//                                   what the file holds before the first run and after each STEPS runs, not timed
//   memory                          {"anonymous_bytes": …} of this process
//   outputs FILE                    writes what the last run gave as safetensors, by position: {"outputs": 2}
//   quit
//
// The inputs are those of the case; outputs are kept from run to run as a service would, on the host. A model that
// writes buffers keeps them too: without STEPS every run goes on where the last one stopped, unless an input says where
// it stands.
// Usage: kpt_serve_models [DEVICE].
#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "archive/mapped_file.h"
#include "kpt/model.h"
#include "tensor_files/safetensors.h"
#include "tensor_files/tensor_file.h"

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// RssAnon of this process.
std::int64_t read_anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "RssAnon:") continue;
    std::int64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

struct Served {
  kpt::Session session;
  std::vector<kpt::Tensor> inputs;
  std::vector<kpt::Tensor> outputs;
};

kpt::Result<std::vector<kpt::Tensor>> read_inputs(const kpt::Model& model, const std::string& path,
                                                  const std::string& prefix) {
  KPT_ASSIGN_OR_RETURN(const auto file, kpt::MappedFile::open(path));
  KPT_ASSIGN_OR_RETURN(const auto tensors, kpt::read_safetensors(file));
  std::vector<kpt::Tensor> inputs;
  for (const kpt::TensorSpec& spec : model.inputs()) {
    for (const kpt::NamedTensor& tensor : tensors) {
      if (tensor.name != prefix + spec.name) continue;
      KPT_ASSIGN_OR_RETURN(kpt::Tensor copy, tensor.tensor.contiguous_copy());  // an input in the page cache is unfair
      inputs.push_back(std::move(copy));
    }
  }
  return inputs;
}

Json load(std::istringstream& words, const std::string& device, std::optional<Served>& served) {
  std::string path;
  std::string cases;
  std::size_t number = 0;
  words >> path;
  if (!(words >> cases)) cases = path.substr(0, path.rfind('.')) + ".cases.safetensors";
  words >> number;
  served.reset();
  const std::int64_t before = read_anonymous_bytes();
  const auto start = Clock::now();
  kpt::LoadOptions options;
  options.device = device;
  const auto model = kpt::load_model(path, options);
  if (!model.ok()) return {{"error", model.status().message()}};
  auto session = model->start_session();
  if (!session.ok()) return {{"error", session.status().message()}};
  const double seconds = seconds_since(start);
  const std::int64_t after = read_anonymous_bytes();
  auto inputs = read_inputs(*model, cases, "case" + std::to_string(number) + "/input/");
  if (!inputs.ok()) return {{"error", inputs.status().message()}};
  served.emplace(Served{std::move(session).value(), std::move(inputs).value(), {}});
  return {{"load_seconds", seconds}, {"anonymous_bytes", after - before}};
}

Json run(std::istringstream& words, std::optional<Served>& served) {
  int count = 1;
  int steps = 0;
  words >> count >> steps;
  if (!served) return {{"error", "nothing is loaded"}};
  std::vector<double> times;
  for (int round = 0; round < count; ++round) {
    if (steps > 0 && round % steps == 0) {
      if (const kpt::Status status = served->session.reset(); !status.ok()) return {{"error", status.message()}};
    }
    const auto start = Clock::now();
    const kpt::Status status = served->session.run(served->inputs, served->outputs);
    times.push_back(1e3 * seconds_since(start));
    if (!status.ok()) return {{"error", status.message()}};
  }
  return {{"times_ms", times}};
}

Json write_outputs(std::istringstream& words, const std::optional<Served>& served) {
  std::string path;
  words >> path;
  if (!served || served->outputs.empty()) return {{"error", "nothing has run"}};
  std::vector<kpt::NamedTensor> named;
  for (const kpt::Tensor& output : served->outputs) {
    auto copy = output.contiguous_copy();
    if (!copy.ok()) return {{"error", copy.status().message()}};
    named.push_back({std::to_string(named.size()), std::move(copy).value()});
  }
  const kpt::Status status = kpt::write_tensors(path, named);
  if (!status.ok()) return {{"error", status.message()}};
  return {{"outputs", named.size()}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "cpu";
  std::optional<Served> served;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "quit") break;
    if (verb == "load") {
      std::cout << load(words, device, served) << std::endl;
    } else if (verb == "run") {
      std::cout << run(words, served) << std::endl;
    } else if (verb == "memory") {
      std::cout << Json{{"anonymous_bytes", read_anonymous_bytes()}} << std::endl;
    } else if (verb == "outputs") {
      std::cout << write_outputs(words, served) << std::endl;
    } else {
      std::cout << Json{{"error", "unknown command"}} << std::endl;
    }
  }
  return 0;
}
