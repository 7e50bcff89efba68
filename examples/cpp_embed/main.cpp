// Loads a model and runs it once on zeros: cpp_embed model.pt2
#include <cctype>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "kpt/errors.h"
#include "kpt/model.h"

int main(int argc, char** argv) try {
  if (argc != 2) return std::cerr << "usage: cpp_embed MODEL.pt2\n", 2;
  const kpt::Model model = kpt::load_model(argv[1]).value();
  std::vector<kpt::NamedTensor> inputs;
  for (const kpt::TensorSpec& spec : model.inputs()) {
    kpt::Dims dims;
    for (const std::string& dim : spec.dims) dims.push_back(std::isdigit(dim[0]) != 0 ? std::stoll(dim) : 2);
    inputs.push_back({spec.name, kpt::Tensor::empty(spec.dtype, dims).value()});
    std::memset(inputs.back().tensor.data(), 0, inputs.back().tensor.bytes());
  }
  kpt::Session session = model.start_session().value();
  for (const kpt::NamedTensor& output : session.run(inputs).value()) {
    std::cout << output.name << ": " << output.tensor.to_string() << "\n";
  }
  return 0;
} catch (const kpt::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
