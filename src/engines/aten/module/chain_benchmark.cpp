// A chain of 1,000 tiny operations as a plain C++ program would call them: the floor for what a graph of them can cost.
// Prints nanoseconds per operation, the median of `repeats` runs. Usage: kpt_chain_benchmark [operations] [repeats]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

int main(int argc, char** argv) {
  const int operations = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : 1000;
  const int repeats = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 50;
  const c10::InferenceMode inference;
  const at::Tensor addend = at::linspace(-0.5, 0.5, 8);
  const at::Tensor factor = at::linspace(0.9, 1.1, 8);
  std::vector<double> times;
  for (int round = 0; round < repeats + 3; ++round) {
    at::Tensor x = at::ones({8});
    const auto start = std::chrono::steady_clock::now();
    for (int index = 0; index < operations; ++index) {
      if (index % 3 == 0) {
        x = at::add(x, addend);
      } else if (index % 3 == 1) {
        x = at::mul(x, factor);
      } else {
        x = at::relu(x);
      }
    }
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    if (round >= 3) times.push_back(elapsed.count() / operations);
  }
  std::sort(times.begin(), times.end());
  std::cout << times[times.size() / 2] << "\n";
  return 0;
}
