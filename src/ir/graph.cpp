#include "ir/graph.h"

#include <cmath>
#include <utility>

namespace kpt::ir {
namespace {

bool same_real(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

bool Subgraph::operator==(const Subgraph& other) const {
  if (name != other.name) return false;
  if (graph == other.graph) return true;
  return graph != nullptr && other.graph != nullptr && *graph == *other.graph;
}

bool Argument::operator==(const Argument& other) const {
  if (const double* real = std::get_if<double>(&value)) {
    const double* real_other = std::get_if<double>(&other.value);
    return real_other != nullptr && same_real(*real, *real_other);
  }
  if (const auto* number = std::get_if<std::complex<double>>(&value)) {
    const auto* number_other = std::get_if<std::complex<double>>(&other.value);
    return number_other != nullptr && same_real(number->real(), number_other->real()) &&
           same_real(number->imag(), number_other->imag());
  }
  return value == other.value;
}

bool Node::operator==(const Node& other) const {
  return target == other.target && name == other.name && arguments == other.arguments && outputs == other.outputs &&
         grad_enabled == other.grad_enabled;
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

}  // namespace kpt::ir
