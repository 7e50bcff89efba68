#include "config/yaml_document.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "config/text_check.h"

namespace kpt {
namespace {

// Options need three levels; the limit is far below what the recursion of the parser can bear.
constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kMaxNodes = 10000;

// Thrown through yaml-cpp to stop it, caught in parse_yaml().
struct Refused {
  YamlError error;
};

// Builds the tree from parser events. Events, unlike YAML::Node, still show repeated keys, anchors and aliases, and let
// us stop before a deep nesting is followed.
class TreeBuilder final : public YAML::EventHandler {
 public:
  std::optional<YamlNode> take_root() { return std::exchange(root_, std::nullopt); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second document starts here; a configuration file holds one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make_node(mark, "", anchor, YamlNode::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "anchors and aliases (& and *) are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = make_node(mark, tag, anchor, YamlNode::Kind::kScalar);
    node.quoted = tag == "!";
    node.text = value;
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, make_node(mark, tag, anchor, YamlNode::Kind::kSequence));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, make_node(mark, tag, anchor, YamlNode::Kind::kMap));
  }
  void OnMapEnd() override { close(); }

 private:
  [[noreturn]] static void refuse(const YAML::Mark& mark, std::string sentence) {
    throw Refused{{mark.line + 1, std::move(sentence)}};
  }

  YamlNode make_node(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (anchor != YAML::NullAnchor)
      refuse(mark, "anchors and aliases (& and *) are not supported; write the value out");
    // yaml-cpp reports "?" for what has no tag and "!" for scalars in quotes.
    if (!tag.empty() && tag != "?" && tag != "!") refuse(mark, "tags (!) are not supported");
    if (++nodes_ > kMaxNodes) refuse(mark, fmt::format("more than {} entries", kMaxNodes));
    YamlNode node;
    node.kind = kind;
    node.line = mark.line + 1;
    return node;
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else {
      open_.back().children.push_back(std::move(node));
    }
  }
  void open(const YAML::Mark& mark, YamlNode node) {
    if (open_.size() == kMaxDepth) refuse(mark, fmt::format("nested more than {} levels deep", kMaxDepth));
    open_.push_back(std::move(node));
  }
  void close() {
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  std::vector<YamlNode> open_;
  std::optional<YamlNode> root_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

int line_of(std::string_view text, std::size_t offset) {
  return static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n')) + 1;
}

// What must not reach yaml-cpp: it would replace bytes that are not UTF-8 and takes 0x04 for the end of the text.
std::optional<YamlError> find_bad_byte(std::string_view text) {
  if (const auto offset = find_invalid_utf8(text)) {
    return YamlError{line_of(text, *offset), "not UTF-8 text; save the file in UTF-8"};
  }
  const auto* bad = std::ranges::find_if(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\n' && c != '\r' && c != '\t';
  });
  if (bad == text.end()) return std::nullopt;
  return YamlError{line_of(text, static_cast<std::size_t>(bad - text.begin())),
                   fmt::format("control character {} in the text; remove it, or write it as an escape in double quotes",
                               quoted_excerpt(std::string_view(bad, 1)))};
}

}  // namespace

YamlDocument parse_yaml(std::string_view text) {
  if (auto bad = find_bad_byte(text)) return {std::nullopt, std::move(bad)};
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return {builder.take_root(), std::nullopt};
  } catch (const Refused& refused) {
    return {std::nullopt, refused.error};
  } catch (const YAML::Exception& error) {
    return {std::nullopt, YamlError{error.mark.line + 1, fmt::format("not valid YAML: {}", one_line(error.msg))}};
  } catch (const std::exception& error) {
    return {std::nullopt, YamlError{0, fmt::format("the YAML parser failed: {}", one_line(error.what()))}};
  }
}

}  // namespace kpt
