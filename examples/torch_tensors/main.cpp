// Runs a model on libtorch's own tensors, which are shared and not copied: torch_tensors model.pt2
#include <cctype>
#include <iostream>
#include <string>
#include <vector>

#include "kpt/errors.h"
#include "kpt/model.h"
#include "kpt/torch.h"

int main(int argc, char** argv) try {
  if (argc != 2) return std::cerr << "usage: torch_tensors MODEL.pt2\n", 2;
  const kpt::Model model = kpt::load_model(argv[1]).value();
  std::vector<at::Tensor> tensors;
  std::vector<kpt::NamedTensor> inputs;
  for (const kpt::TensorSpec& spec : model.inputs()) {
    if (spec.dtype != kpt::DType::kFloat32) return std::cerr << "this example takes float32 inputs alone\n", 2;
    std::vector<std::int64_t> dims;
    for (const std::string& dim : spec.dims) dims.push_back(std::isdigit(dim[0]) != 0 ? std::stoll(dim) : 2);
    tensors.push_back(at::ones(dims));
    inputs.push_back({spec.name, kpt::from_torch(tensors.back()).value()});
    if (inputs.back().tensor.data() != tensors.back().data_ptr()) return std::cerr << "the input was copied\n", 1;
  }
  kpt::Session session = model.start_session().value();
  for (const kpt::NamedTensor& output : session.run(inputs).value()) {
    const at::Tensor answer = kpt::to_torch(output.tensor).value();
    if (answer.data_ptr() != output.tensor.data()) return std::cerr << "the output was copied\n", 1;
    std::cout << output.name << ": " << answer.sizes() << ", mean " << answer.to(at::kDouble).mean().item<double>()
              << "\n";
  }
  return 0;
} catch (const kpt::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
