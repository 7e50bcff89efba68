// kpt-tpu-compile LIBRARY TOPOLOGY OPTIONS CHIPS CONFIG MODULE RESULT: compiles one module for hardware that is not
// here.
//
//   LIBRARY   a PJRT plugin (libtpu.so)           MODULE  file with StableHLO text
//   TOPOLOGY  "v5e:2x2"                           RESULT  where the serialized executable goes
//   OPTIONS   compile options, hexadecimal        CHIPS   chips per host as "2,2,1", or "-"
//   CONFIG    how cores make devices, or "-"
//
// One line on standard output says how it went: "kpt-tpu-compile: " and JSON (engines/xla/pjrt/topology_compile.h).
// Not for people: started by compile_topology_in_child() in src/engines/xla. Compiled for x86_64 on
// every machine, so nothing of the tree is used beside that one file.
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/end_with_parent.h"
#include "cli/exit_code.h"
#include "engines/xla/pjrt/topology_compile.h"

namespace {

std::optional<std::string> parse_hex(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (error != std::errc() || end != text.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::optional<std::vector<std::int64_t>> parse_chips(std::string_view text) {
  std::vector<std::int64_t> chips;
  if (text == "-") return chips;
  while (true) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 1) return std::nullopt;
    chips.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return chips;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

int compile(char** argv) {
  kpt::pjrt::TopologyRequest request;
  request.library = argv[1];
  request.topology = argv[2];
  const auto options = parse_hex(argv[3]);
  const auto chips = parse_chips(argv[4]);
  if (std::string_view(argv[5]) != "-") request.chip_config = argv[5];
  std::ifstream module(argv[6], std::ios::binary);
  if (!options || !chips || !module) {
    std::cerr << "kpt-tpu-compile: an argument cannot be read\n";
    return kpt::cli::kExitUsage;
  }
  request.compile_options = *options;
  request.chips_per_host = *chips;
  request.module_text.assign(std::istreambuf_iterator<char>(module), {});
  kpt::pjrt::TopologyResult result = kpt::pjrt::compile_for_topology(request);
  if (!result.failure) {
    std::ofstream file(argv[7], std::ios::binary);
    file << result.executable << std::flush;
    if (!file) result.failure = {"", 0, std::string("the result cannot be written to ") + argv[7]};
  }
  std::cout << "kpt-tpu-compile: " << to_json(result) << std::endl;
  return result.failure ? kpt::cli::kExitFailed : kpt::cli::kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "usage: kpt-tpu-compile LIBRARY TOPOLOGY OPTIONS CHIPS CONFIG MODULE RESULT\n";
    return kpt::cli::kExitUsage;
  }
  if (!kpt::cli::end_with_parent()) return kpt::cli::kExitFailed;
  try {
    // A plugin leaves threads behind that may trip over a process being taken down.
    const int code = compile(argv);
    std::fflush(nullptr);
    std::_Exit(code);
  } catch (const std::exception& error) {
    std::cerr << "kpt-tpu-compile: " << error.what() << "\n";
    return kpt::cli::kExitFailed;
  }
}
