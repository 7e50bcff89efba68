// What sequence_rows.h knows about a value, and how it follows through operators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/symbolic.h"
#include "kpt/dtype.h"

namespace kpt::detail {

// A product of symbols and a number, without order.
struct Factors {
  std::int64_t number = 1;           // 0: too large to say, or zero
  std::vector<std::string> symbols;  // sorted; other expressions as text
  bool operator==(const Factors& other) const {
    return number != 0 && number == other.number && symbols == other.symbols;
  }
};

Factors factors_of(const ir::Expr& expr);
Factors operator*(const Factors& a, const Factors& b);
// Nothing where `part` is no factor of `whole`.
std::optional<Factors> divide(const Factors& whole, const Factors& part);

// Each element is its position along an axis, and so much more.
struct Count {
  std::size_t axis = 0;
  std::int64_t offset = 0;
};

struct AxisFacts {
  // Of an extent that is the symbol and others merged: the product of those before the symbol.
  Factors outer;
  // The elements behind the end along this axis, where all other coordinates are of the sequence's own positions.
  std::optional<double> behind;
};

struct SequenceFacts {
  std::vector<AxisFacts> axes;    // as many as the value has
  std::optional<double> uniform;  // all elements are this number
  std::optional<Count> count;
  // Elements are the caller's, or of what is stored for each position: as indices they are of rows that exist.
  bool given = false;
};

// The axes of `to` along `symbol`, each with the axis of `from` whose positions it holds, when the same elements get
// other extents; `outer` is that of the axes of `from`. Nothing where positions would come to stand elsewhere.
struct MovedAxis {
  std::size_t from = 0;
  std::size_t to = 0;
  Factors outer;
};
std::optional<std::vector<MovedAxis>> move_axes(const std::vector<ir::Expr>& from, const std::vector<AxisFacts>& facts,
                                                const std::vector<ir::Expr>& to, std::string_view symbol);

// Names of a node's arguments and what is known of each at some place.
using KnownArguments = std::vector<std::pair<std::string_view, std::optional<double>>>;

// What a pointwise operator ("add") gives there. Only 0, 1 and infinities are followed. Zero times something is zero
// and something less infinity is that: what is not known is taken to be finite.
std::optional<double> evaluate_known(std::string_view name, const KnownArguments& arguments, DType result);

// What comparing two counts (le, lt, ge, gt) gives where the one is behind the end and the other is not.
std::optional<double> compare_behind_end(std::string_view name, std::int64_t self_offset, std::int64_t other_offset,
                                         bool self_behind);

}  // namespace kpt::detail
