// Numbers and shared pieces of the JSON schema that torch.export writes (major 8).
//
// The numbers of enumerations are the schema's own: they are neither c10's nor ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "archive/json_reader.h"
#include "ir/graph.h"
#include "kpt/dtype.h"
#include "kpt/status.h"

namespace kpt::pt2 {

inline constexpr std::int64_t kSchemaMajor = 8;

std::optional<DType> find_dtype(std::int64_t number);
std::optional<ir::Layout> find_layout(std::int64_t number);
std::optional<ir::MemoryFormat> find_memory_format(std::int64_t number);

// "torch.ops.aten.add.Tensor" without its "torch.ops."; other targets as they are.
std::string strip_target(std::string_view target);

// A union is an object of one member: calls `visit(tag)`, which must consume the value.
template <typename Visit>
Status read_union(JsonReader* reader, const Visit& visit) {
  bool seen = false;
  KPT_RETURN_IF_ERROR(reader->object([&](std::string_view tag) -> Status {
    if (seen) return reader->error("a union with two members");
    seen = true;
    return visit(tag);
  }));
  if (!seen) return reader->error("a union without a member");
  return {};
}

Status read_dtype(JsonReader* reader, DType* dtype);
Status read_device(JsonReader* reader, ir::DeviceSpec* device);

// Reads TensorMeta and SymInt. Files repeat the same few expressions thousands of times: each is parsed once.
class TypeReader {
 public:
  explicit TypeReader(JsonReader* reader) : reader_(reader) {}

  // Checks that sizes and strides are as many and at most kMaxRank, and that constant sizes are not negative.
  Status tensor(ir::TensorType* type);
  Status sym_int(ir::Expr* expression);

 private:
  Status expression(ir::Expr* expression);
  Status sizes(std::vector<ir::Expr>* values);

  JsonReader* reader_;
  std::unordered_map<std::string, ir::Expr> parsed_;
};

}  // namespace kpt::pt2
