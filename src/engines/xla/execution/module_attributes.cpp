#include "engines/xla/execution/module_attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kpt {
namespace {

std::string dictionary(const std::vector<std::string>& items) { return fmt::format(" {{{}}}", fmt::join(items, ", ")); }

}  // namespace

std::string add_attributes(std::string text, const MainAttributes& attributes) {
  const std::size_t main = text.find("@main(");
  if (main == std::string::npos) return text;
  const std::size_t end = text.find('\n', main);
  std::string line = text.substr(main, end == std::string::npos ? end : end - main);
  const std::size_t before = line.size();
  // From the back, so that places before stay.
  constexpr std::string_view kArrow = ") -> (";
  const std::size_t arrow = line.find(kArrow);
  std::vector<std::size_t> ends;  // of the results' types
  for (std::size_t place = arrow; place != std::string::npos;) {
    place = line.find("tensor<", place);
    if (place != std::string::npos) place = line.find('>', place);
    if (place != std::string::npos) ends.push_back(place + 1);
  }
  for (auto result = attributes.results.rbegin(); result != attributes.results.rend(); ++result) {
    if (result->first < ends.size()) line.insert(ends[result->first], dictionary(result->second));
  }
  for (const auto& [index, items] : attributes.arguments) {
    const std::size_t place = line.find(fmt::format("%arg{}: tensor<", index));
    const std::size_t close = place == std::string::npos ? place : line.find('>', place);
    if (close != std::string::npos) line.insert(close + 1, dictionary(items));
  }
  text.replace(main, before, line);
  const std::size_t head = text.find("{\n");
  if (!attributes.mesh.empty() && head < main) text.insert(head + 2, "  " + attributes.mesh + "\n");
  return text;
}

}  // namespace kpt
