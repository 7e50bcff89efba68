#include "importer/schema.h"

#include <limits>
#include <utility>
#include <vector>

#include "kpt/tensor.h"

namespace kpt::pt2 {

std::optional<DType> find_dtype(std::int64_t number) {
  switch (number) {
    case 1: return DType::kUInt8;
    case 2: return DType::kInt8;
    case 3: return DType::kInt16;
    case 4: return DType::kInt32;
    case 5: return DType::kInt64;
    case 6: return DType::kFloat16;
    case 7: return DType::kFloat32;
    case 8: return DType::kFloat64;
    case 9: return DType::kComplex32;
    case 10: return DType::kComplex64;
    case 11: return DType::kComplex128;
    case 12: return DType::kBool;
    case 13: return DType::kBFloat16;
    case 28: return DType::kUInt16;
    case 29: return DType::kFloat8E4M3FN;
    case 30: return DType::kFloat8E5M2;
    case 31: return DType::kFloat8E4M3FNUZ;
    case 32: return DType::kFloat8E5M2FNUZ;
    case 33: return DType::kFloat8E8M0FNU;
    case 34: return DType::kUInt32;
    case 35: return DType::kUInt64;
    default: return std::nullopt;
  }
}

std::optional<ir::Layout> find_layout(std::int64_t number) {
  switch (number) {
    case 1: return ir::Layout::kSparseCoo;
    case 2: return ir::Layout::kSparseCsr;
    case 3: return ir::Layout::kSparseCsc;
    case 4: return ir::Layout::kSparseBsr;
    case 5: return ir::Layout::kSparseBsc;
    case 6: return ir::Layout::kMkldnn;
    case 7: return ir::Layout::kStrided;
    default: return std::nullopt;
  }
}

std::optional<ir::MemoryFormat> find_memory_format(std::int64_t number) {
  switch (number) {
    case 1: return ir::MemoryFormat::kContiguous;
    case 2: return ir::MemoryFormat::kChannelsLast;
    case 3: return ir::MemoryFormat::kChannelsLast3d;
    case 4: return ir::MemoryFormat::kPreserve;
    default: return std::nullopt;
  }
}

std::string strip_target(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  return std::string(target);
}

Status read_dtype(JsonReader* reader, DType* dtype) {
  std::int64_t number = 0;
  KPT_RETURN_IF_ERROR(reader->integer(&number));
  const std::optional<DType> found = find_dtype(number);
  if (!found) return reader->error("the element type " + std::to_string(number) + " is unknown");
  *dtype = *found;
  return {};
}

Status read_device(JsonReader* reader, ir::DeviceSpec* device) {
  *device = {.type = "", .index = {}};
  std::int64_t index = -1;
  KPT_RETURN_IF_ERROR(reader->object([&](std::string_view key) -> Status {
    if (key == "type") return reader->string(&device->type);
    if (key != "index" || reader->peek() == JsonReader::Kind::kNull) return reader->skip();
    return reader->integer(&index);
  }));
  if (index < -1 || index > std::numeric_limits<std::int16_t>::max()) return reader->error("no index of a device");
  if (index >= 0) device->index = static_cast<int>(index);  // PyTorch writes -1 for "the current one"
  if (device->type.empty()) return reader->error("a device without a type");
  return {};
}

Status TypeReader::expression(ir::Expr* expression) {
  std::string text;
  bool seen = false;
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key != "expr_str") return reader_->skip();  // the hint is the value of one example
    seen = true;
    return reader_->string(&text);
  }));
  if (!seen) return reader_->error("an expression without 'expr_str'");
  if (const auto found = parsed_.find(text); found != parsed_.end()) {
    *expression = found->second;
    return {};
  }
  Result<ir::Expr> parsed = ir::parse_srepr(text);
  if (!parsed.ok()) return reader_->error(parsed.status().message());
  *expression = std::move(parsed).value();
  parsed_.emplace(std::move(text), *expression);
  return {};
}

Status TypeReader::sym_int(ir::Expr* value) {
  return read_union(reader_, [&](std::string_view tag) -> Status {
    if (tag == "as_expr") return expression(value);
    if (tag != "as_int") return reader_->error("expected as_int or as_expr");
    std::int64_t constant = 0;
    KPT_RETURN_IF_ERROR(reader_->integer(&constant));
    *value = constant;
    return {};
  });
}

Status TypeReader::sizes(std::vector<ir::Expr>* values) {
  return reader_->array([&]() -> Status {
    if (values->size() == kMaxRank) return reader_->error("a tensor of rank over " + std::to_string(kMaxRank));
    return sym_int(&values->emplace_back());
  });
}

Status TypeReader::tensor(ir::TensorType* type) {
  *type = {};
  bool has_dtype = false;
  bool has_sizes = false;
  bool has_strides = false;
  std::int64_t layout_number = 7;  // strided
  KPT_RETURN_IF_ERROR(reader_->object([&](std::string_view key) -> Status {
    if (key == "dtype") {
      has_dtype = true;
      return read_dtype(reader_, &type->dtype);
    }
    if (key == "sizes") {
      has_sizes = true;
      return sizes(&type->dims);
    }
    if (key == "strides") {
      has_strides = true;
      return sizes(&type->strides);
    }
    if (key == "requires_grad") return reader_->boolean(&type->requires_grad);
    if (key == "device") return read_device(reader_, &type->device);
    if (key == "storage_offset") return sym_int(&type->storage_offset);
    return key == "layout" ? reader_->integer(&layout_number) : reader_->skip();
  }));
  const std::optional<ir::Layout> layout = find_layout(layout_number);
  if (!layout) return reader_->error("the layout " + std::to_string(layout_number) + " is unknown");
  type->layout = *layout;
  if (!has_dtype || !has_sizes) return reader_->error("a tensor without 'dtype' or 'sizes'");
  // Sparse tensors have no strides; those of others are checked where they are used.
  const bool strided = type->layout == ir::Layout::kStrided;
  if (strided && (!has_strides || type->strides.size() != type->dims.size())) {
    return reader_->error("a tensor whose strides are not as many as its sizes");
  }
  for (const ir::Expr& size : type->dims) {
    if (size.constant().value_or(0) < 0) return reader_->error("a tensor of negative size");
  }
  return {};
}

}  // namespace kpt::pt2
