// Whether what a caller gives fits what the model takes. Derived from the signature: rank, type, sizes, and that a
// symbol means the same everywhere and stays in its range.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

class InputCheck {
 public:
  // `graph` must outlive the check.
  explicit InputCheck(const ir::Graph& graph);

  // Names of the inputs that callers give, in order.
  const std::vector<std::string>& names() const { return names_; }

  // `inputs`: one per name. Fails with kInvalidArgument: "input 'ids': expected int64[s0 (2 to 64), 128], got
  // int64[2, 64]: size 1 must be 128". Allocates only when it fails.
  Status check(std::span<const Tensor> inputs) const;

 private:
  struct Expected {
    const ir::Value* value = nullptr;
    std::string name;
  };
  Status check_one(const Expected& expected, const Tensor& given, ir::Bindings& symbols) const;
  Status check_integer(const Expected& expected, const Tensor& given, ir::Bindings& symbols) const;
  // Remembers what a symbol is and refuses another value of it or one outside its range. No `axis`: the input is
  // the number itself.
  Status bind_symbol(const Expected& expected, const Tensor& given, std::optional<std::size_t> axis,
                     std::string_view symbol, std::int64_t number, ir::Bindings& symbols) const;
  Status check_derived(const Expected& expected, const Tensor& given, std::size_t axis, ir::Bindings& symbols) const;
  Status mismatch(const Expected& expected, const Tensor& given, std::string why) const;
  std::string describe(const ir::Value& value) const;
  const ir::SymbolRange* find_range(std::string_view symbol) const;

  const ir::Graph& graph_;
  std::vector<Expected> expected_;
  std::vector<std::pair<std::size_t, std::size_t>> derived_;  // input and axis of sizes that are expressions
  std::vector<std::string> names_;
};

}  // namespace kpt
