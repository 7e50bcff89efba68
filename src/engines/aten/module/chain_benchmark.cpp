// A chain of tiny operations as a plain C++ program would call them: the floor for what a graph of them can cost. Obeys
// commands on standard input for benchmarks/tiny_chain.py, a JSON line each:
//
//   run N     {"times_ms": […]} of N runs
//   quit
//
// Usage: kpt_chain_benchmark [OPERATIONS (1000)]. One thread.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

namespace {

struct Chain {
  at::Tensor x = at::linspace(-1, 1, 8);
  at::Tensor addend = at::linspace(-0.5, 0.5, 8);
  at::Tensor factor = at::linspace(0.9, 1.1, 8);

  at::Tensor run(int operations) const {
    at::Tensor result = x;
    for (int index = 0; index < operations; ++index) {
      if (index % 3 == 0) {
        result = at::add(result, addend);
      } else if (index % 3 == 1) {
        result = at::mul(result, factor);
      } else {
        result = at::relu(result);
      }
    }
    return result;
  }
};

void print_times(const Chain& chain, int operations, int count) {
  std::cout << "{\"times_ms\": [";
  for (int round = 0; round < count; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor result = chain.run(operations);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << (round == 0 ? "" : ", ") << elapsed.count();
  }
  std::cout << "]}" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const int operations = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 1000;
  at::set_num_threads(1);
  const c10::InferenceMode inference;
  const Chain chain;
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    std::istringstream words(line);
    std::string verb;
    int count = 0;
    if (words >> verb >> count && verb == "run") {
      print_times(chain, operations, count);
    } else {
      std::cout << "{\"error\": \"expected: run N, or quit\"}" << std::endl;
    }
  }
  return 0;
}
