// A pull reader of JSON for large untrusted documents: the caller asks for what it expects, and skips the rest at the
// speed of a scan. No tree is built, nothing recurses on the document's depth, errors name line, column and path.
// Text is UTF-8 (RFC 8259); lone surrogates and keys that occur twice in an object that is read are errors.
//
//   reader.object([&](std::string_view key) -> Status {
//     if (key == "name") return reader.string(&name);
//     return reader.skip();
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kpt/status.h"

namespace kpt {

class JsonReader {
 public:
  static constexpr std::size_t kMaxDepth = 512;

  // `document` must outlive the reader; `name` is for messages ("model.pt2: models/model.json").
  JsonReader(std::string_view document, std::string name) : text_(document), name_(std::move(name)) {}

  enum class Kind { kObject, kArray, kString, kNumber, kTrue, kFalse, kNull, kEnd, kInvalid };
  // What comes next; consumes nothing but white space.
  Kind peek();

  // For each member: `visit(key)` must consume the value. The key is valid until the next call on the reader.
  // A key that occurs twice is an error.
  template <typename Visit>
  Status object(const Visit& visit);
  // For each element: `visit()` must consume it.
  template <typename Visit>
  Status array(const Visit& visit);

  // Exactly the kind asked for, otherwise kCorruptData. Integers must fit and have no fraction or exponent.
  Status string(std::string* value);
  Status integer(std::int64_t* value);
  Status boolean(bool* value);
  Status null();
  // A number, or one of the strings "Infinity", "-Infinity", "NaN" (as torch.export writes them).
  Status number(double* value);
  // Any value, unread but well-formedness checked as far as brackets and strings go.
  Status skip();
  // After the top value: nothing but white space may follow.
  Status finish();

  // Byte position in the document; a reader of the same document can be put there again.
  std::size_t offset() const { return position_; }
  void seek(std::size_t offset) { position_ = offset; }

  // kCorruptData at the present place: "model.json:12:7: expected a string at graph_module.graph.nodes[3].target".
  Status error(std::string_view what) const;
  // "model.json:12:7" and "graph_module.graph.nodes[3].target" of the present place. Found by reading the document from
  // its start up to there, so that reading without errors pays nothing for it.
  std::string place() const;
  std::string path() const;

 private:
  // The keys of the object being read. Few: compared one by one; many: a set.
  class SeenKeys {
   public:
    bool insert(std::string_view key, bool in_document);  // false: it was there

   private:
    static constexpr std::size_t kFew = 16;
    std::vector<std::string_view> few_;
    std::unordered_set<std::string_view> many_;
    std::deque<std::string> unescaped_;  // those that are not in the document as they are
  };

  Status open(char bracket, bool* empty);               // consumes the bracket, and the closing one of an empty value
  Status next(char closing, bool* more);                // consumes a comma or the closing bracket
  Status key(SeenKeys* seen, std::string_view* value);  // and the colon
  Status string_view(std::string_view* value, bool* in_document);  // unescaped into scratch_ if need be
  Status skip_container();
  Status literal(std::string_view word, std::string_view what);
  std::string_view number_token() const;  // empty: none of JSON's form
  void skip_space();

  std::string_view text_;
  std::string name_;
  std::size_t position_ = 0;
  std::size_t depth_ = 0;
  std::string scratch_;
};

template <typename Visit>
Status JsonReader::object(const Visit& visit) {
  bool empty = false;
  KPT_RETURN_IF_ERROR(open('{', &empty));
  SeenKeys seen;
  for (bool more = !empty; more;) {
    std::string_view name;
    KPT_RETURN_IF_ERROR(key(&seen, &name));
    KPT_RETURN_IF_ERROR(visit(name));
    KPT_RETURN_IF_ERROR(next('}', &more));
  }
  --depth_;
  return {};
}

template <typename Visit>
Status JsonReader::array(const Visit& visit) {
  bool empty = false;
  KPT_RETURN_IF_ERROR(open('[', &empty));
  for (bool more = !empty; more;) {
    KPT_RETURN_IF_ERROR(visit());
    KPT_RETURN_IF_ERROR(next(']', &more));
  }
  --depth_;
  return {};
}

}  // namespace kpt
