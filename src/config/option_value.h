// One value of one option: from text, to text, and what would have been right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/options.h"
#include "kpt/status.h"

namespace kpt {

// kChoice, kName and kPath are text, both list kinds are lists.
using OptionValue = std::variant<bool, std::int64_t, std::string, std::vector<std::string>>;

// All three fail with kConfiguration. The sentence names the option, what was found, what was expected and the nearest
// allowed word; it does not say where: the caller knows.
//
// Text from a flag or a variable: lists are separated by commas.
Result<OptionValue> parse_option(OptionId id, std::string_view text);
// One value of a file. Lists do not come this way.
Result<OptionValue> parse_option_scalar(OptionId id, std::string_view text);
Result<OptionValue> parse_option_list(OptionId id, std::vector<std::string> items);

bool is_list(OptionKind kind);

// "true or false", "a whole number from 100 to 120000", "one of text, json", …
std::string describe_expected(const OptionDomain& domain);

// The value as YAML on one line; parsing it gives an equal value. It is also the form for people.
std::string to_yaml(const OptionValue& value);

}  // namespace kpt
