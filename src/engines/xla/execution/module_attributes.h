// What a module tells XLA about the arguments and results of @main beyond their types.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kpt {

struct MainAttributes {
  std::string mesh;  // an operation at the head of the module that the others refer to; empty: none
  std::map<std::uint32_t, std::vector<std::string>> arguments;  // by N of %argN
  std::map<std::size_t, std::vector<std::string>> results;      // by place
};

// The module's text with the attributes. Only arguments of the form "%argN: tensor<…>" in the line of @main, and
// results in that line, are known; others are left as they are.
std::string add_attributes(std::string text, const MainAttributes& attributes);

}  // namespace kpt
