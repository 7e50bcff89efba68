#include "tensor_files/pickle_machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/little_endian.h"
#include "base/text.h"

namespace kpt {
namespace {

// The operations that torch.save() uses, by the letters of Python's pickle module.
enum Operation : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistent = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProtocol = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

constexpr std::array<std::pair<std::string_view, PickleGlobal>, 7> kGlobals{{
    {"torch._utils._rebuild_tensor_v2", PickleGlobal::kRebuildTensorV2},
    {"torch._utils._rebuild_tensor_v3", PickleGlobal::kRebuildTensorV3},
    {"torch._utils._rebuild_parameter", PickleGlobal::kRebuildParameter},
    {"collections.OrderedDict", PickleGlobal::kOrderedDict},
    {"torch.device", PickleGlobal::kDevice},
    {"torch.Size", PickleGlobal::kSize},
    {"torch.storage.UntypedStorage", PickleGlobal::kUntypedStorage},
}};

constexpr std::array<std::pair<std::string_view, DType>, 12> kStorageTypes{{
    {"torch.BoolStorage", DType::kBool},
    {"torch.ByteStorage", DType::kUInt8},
    {"torch.CharStorage", DType::kInt8},
    {"torch.ShortStorage", DType::kInt16},
    {"torch.IntStorage", DType::kInt32},
    {"torch.LongStorage", DType::kInt64},
    {"torch.HalfStorage", DType::kFloat16},
    {"torch.BFloat16Storage", DType::kBFloat16},
    {"torch.FloatStorage", DType::kFloat32},
    {"torch.DoubleStorage", DType::kFloat64},
    {"torch.ComplexFloatStorage", DType::kComplex64},
    {"torch.ComplexDoubleStorage", DType::kComplex128},
}};

}  // namespace

Status PickleMachine::corrupt(std::string_view what) const {
  return {StatusCode::kCorruptData, fmt::format("{} is a damaged pickle: {}", name_, what)};
}

Status PickleMachine::unsupported(std::string_view what) const {
  return {StatusCode::kUnsupported, fmt::format("{} {}", name_, what)};
}

Result<std::string_view> PickleMachine::take(std::size_t count) {
  if (count > rest_.size()) return corrupt("it is cut short");
  const std::string_view part = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return part;
}

Result<std::string_view> PickleMachine::take_line() {
  const std::size_t end = rest_.find('\n');
  if (end == std::string_view::npos) return corrupt("it is cut short");
  const std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return line;
}

template <typename T>
Result<T> PickleMachine::take_number() {
  KPT_ASSIGN_OR_RETURN(const std::string_view bytes, take(sizeof(T)));
  return load_little_endian<T>(reinterpret_cast<const std::byte*>(bytes.data()));
}

Result<PickleNodeId> PickleMachine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) return corrupt("its stack runs empty");
  const PickleNodeId id = stack_.back();
  stack_.pop_back();
  return id;
}

Result<std::vector<PickleNodeId>> PickleMachine::pop_to_mark() {
  if (marks_.empty()) return corrupt("a mark is missing");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleNodeId> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

Result<PickleNodeId> PickleMachine::run() {
  for (std::size_t count = 0; count < kMaxOperations; ++count) {
    KPT_ASSIGN_OR_RETURN(const std::string_view letter, take(1));
    const auto operation = static_cast<unsigned char>(letter.front());
    if (operation == kStop) {
      KPT_ASSIGN_OR_RETURN(const PickleNodeId result, pop());
      if (!stack_.empty() || !marks_.empty()) return corrupt("it leaves more than one value");
      if (!rest_.empty()) return corrupt("something follows its end");
      return result;
    }
    KPT_RETURN_IF_ERROR(step(operation));
  }
  return unsupported(fmt::format("has more than {} pickle operations", kMaxOperations));
}

Status PickleMachine::step(unsigned char operation) {
  switch (operation) {
    case kProtocol: {
      KPT_ASSIGN_OR_RETURN(const std::string_view version, take(1));
      if (version.front() == 2) return {};
      return unsupported(fmt::format("is a pickle of protocol {}; torch.save() writes protocol 2 unless told otherwise",
                                     static_cast<unsigned char>(version.front())));
    }
    case kGlobal: return push_global();
    case kReduce: return reduce();
    case kBuild: return build();
    case kBinPersistent: return push_persistent();
    case kBinGet: {
      KPT_ASSIGN_OR_RETURN(const std::string_view key, take(1));
      return recall(static_cast<unsigned char>(key.front()));
    }
    case kLongBinGet: {
      KPT_ASSIGN_OR_RETURN(const std::uint32_t key, take_number<std::uint32_t>());
      return recall(key);
    }
    case kBinPut: {
      KPT_ASSIGN_OR_RETURN(const std::string_view key, take(1));
      return remember(static_cast<unsigned char>(key.front()));
    }
    case kLongBinPut: {
      KPT_ASSIGN_OR_RETURN(const std::uint32_t key, take_number<std::uint32_t>());
      return remember(key);
    }
    case kPop: return pop().status();
    case kPopMark: return pop_to_mark().status();
    case kDup: {
      KPT_ASSIGN_OR_RETURN(const PickleNodeId id, pop());
      stack_.insert(stack_.end(), {id, id});
      return {};
    }
    default: return step_scalar(operation);
  }
}

Status PickleMachine::step_scalar(unsigned char operation) {
  switch (operation) {
    case kNone: push(PickleValue::None{}); return {};
    case kNewTrue: push(true); return {};
    case kNewFalse: push(false); return {};
    case kBinInt: {
      KPT_ASSIGN_OR_RETURN(const std::uint32_t value, take_number<std::uint32_t>());
      push(std::int64_t{static_cast<std::int32_t>(value)});
      return {};
    }
    case kBinInt1: {
      KPT_ASSIGN_OR_RETURN(const std::string_view value, take(1));
      push(std::int64_t{static_cast<unsigned char>(value.front())});
      return {};
    }
    case kBinInt2: {
      KPT_ASSIGN_OR_RETURN(const std::uint16_t value, take_number<std::uint16_t>());
      push(std::int64_t{value});
      return {};
    }
    case kLong1: return push_long();
    case kBinFloat: {
      KPT_ASSIGN_OR_RETURN(const std::uint64_t value, take_number<std::uint64_t>());
      push(std::bit_cast<double>(__builtin_bswap64(value)));  // the one number that pickles store big endian
      return {};
    }
    case kBinUnicode: {
      KPT_ASSIGN_OR_RETURN(const std::uint32_t size, take_number<std::uint32_t>());
      KPT_ASSIGN_OR_RETURN(const std::string_view text, take(size));
      push(std::string(text));
      return {};
    }
    default: return step_container(operation);
  }
}

Status PickleMachine::step_container(unsigned char operation) {
  switch (operation) {
    case kMark: marks_.push_back(stack_.size()); return {};
    case kEmptyList: push(PickleNode::List{}); return {};
    case kEmptyTuple: push(PickleNode::Tuple{}); return {};
    case kEmptyDict: push(PickleNode::Dict{}); return {};
    case kTuple1: return push_tuple(1);
    case kTuple2: return push_tuple(2);
    case kTuple3: return push_tuple(3);
    case kTuple: {
      KPT_ASSIGN_OR_RETURN(std::vector<PickleNodeId> items, pop_to_mark());
      push(PickleNode::Tuple{std::move(items)});
      return {};
    }
    case kAppend: {
      KPT_ASSIGN_OR_RETURN(const PickleNodeId item, pop());
      return append({item});
    }
    case kAppends: {
      KPT_ASSIGN_OR_RETURN(std::vector<PickleNodeId> items, pop_to_mark());
      return append(std::move(items));
    }
    case kSetItem: {
      KPT_ASSIGN_OR_RETURN(const PickleNodeId value, pop());
      KPT_ASSIGN_OR_RETURN(const PickleNodeId key, pop());
      return set_items({key, value});
    }
    case kSetItems: {
      KPT_ASSIGN_OR_RETURN(std::vector<PickleNodeId> pairs, pop_to_mark());
      return set_items(std::move(pairs));
    }
    default:
      return unsupported(fmt::format("uses the pickle operation 0x{:02x}, which torch.save() does not", operation));
  }
}

// Any number of bytes, two's complement, little endian; none for zero.
Status PickleMachine::push_long() {
  KPT_ASSIGN_OR_RETURN(const std::string_view size, take(1));
  KPT_ASSIGN_OR_RETURN(const std::string_view bytes, take(static_cast<unsigned char>(size.front())));
  if (bytes.size() > sizeof(std::int64_t)) return unsupported("holds an integer of more than 64 bits");
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  push(static_cast<std::int64_t>(value));
  return {};
}

Status PickleMachine::push_tuple(std::size_t count) {
  std::vector<PickleNodeId> items(count);
  for (std::size_t i = count; i-- > 0;) {
    KPT_ASSIGN_OR_RETURN(items[i], pop());
  }
  push(PickleNode::Tuple{std::move(items)});
  return {};
}

Status PickleMachine::append(std::vector<PickleNodeId> items) {
  KPT_ASSIGN_OR_RETURN(const PickleNodeId target, pop());
  auto* list = get<PickleNode::List>(target);
  if (list == nullptr) return corrupt("it appends to something other than a list");
  list->items.insert(list->items.end(), items.begin(), items.end());
  stack_.push_back(target);
  return {};
}

Status PickleMachine::set_items(std::vector<PickleNodeId> pairs) {
  KPT_ASSIGN_OR_RETURN(const PickleNodeId target, pop());
  auto* dict = get<PickleNode::Dict>(target);
  if (dict == nullptr || pairs.size() % 2 != 0) return corrupt("it sets items of something other than a dict");
  dict->pairs.insert(dict->pairs.end(), pairs.begin(), pairs.end());
  stack_.push_back(target);
  return {};
}

Status PickleMachine::remember(std::uint32_t key) {
  KPT_ASSIGN_OR_RETURN(const PickleNodeId id, pop());
  stack_.push_back(id);
  if (memo_.size() >= kMaxMemo) return unsupported(fmt::format("remembers more than {} values", kMaxMemo));
  memo_.insert_or_assign(key, id);
  return {};
}

Status PickleMachine::recall(std::uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return corrupt(fmt::format("it recalls the value {}, which it never stored", key));
  stack_.push_back(found->second);
  return {};
}

Status PickleMachine::push_global() {
  KPT_ASSIGN_OR_RETURN(const std::string_view module, take_line());
  KPT_ASSIGN_OR_RETURN(const std::string_view function, take_line());
  const std::string name = fmt::format("{}.{}", module, function);
  const auto* global = std::ranges::find(kGlobals, name, &std::pair<std::string_view, PickleGlobal>::first);
  if (global != kGlobals.end()) {
    push(global->second);
    return {};
  }
  const auto* storage = std::ranges::find(kStorageTypes, name, &std::pair<std::string_view, DType>::first);
  if (storage != kStorageTypes.end()) {
    push(PickleStorageType{storage->second});
    return {};
  }
  if (module == "torch") {
    if (const auto dtype = find_dtype(function)) {
      push(*dtype);
      return {};
    }
  }
  return unsupported(
      fmt::format("asks for the Python object {}, which is not among those that are read; save plain "
                  "tensors, lists, tuples and dicts",
                  printable(name, 200)));
}

Status PickleMachine::reduce() {
  KPT_ASSIGN_OR_RETURN(const PickleNodeId argument_tuple, pop());
  KPT_ASSIGN_OR_RETURN(const PickleNodeId callee, pop());
  const auto* tuple = get<PickleNode::Tuple>(argument_tuple);
  const auto* global = get<PickleGlobal>(callee);
  if (tuple == nullptr) return corrupt("it calls something with arguments that are no tuple");
  if (global == nullptr) return unsupported("calls a value that is not a known function");
  const std::vector<PickleNodeId> arguments = tuple->items;
  switch (*global) {
    case PickleGlobal::kRebuildTensorV2: return rebuild_tensor(arguments, false);
    case PickleGlobal::kRebuildTensorV3: return rebuild_tensor(arguments, true);
    case PickleGlobal::kRebuildParameter: return rebuild_parameter(arguments);
    case PickleGlobal::kDevice: return make_device(arguments);
    case PickleGlobal::kOrderedDict:
      if (!arguments.empty()) return unsupported("makes a collections.OrderedDict from arguments");
      push(PickleNode::Dict{});
      return {};
    case PickleGlobal::kSize:
      if (arguments.size() != 1 || get<PickleNode::Tuple>(arguments[0]) == nullptr) {
        return corrupt("its torch.Size is made from something other than a tuple");
      }
      stack_.push_back(arguments[0]);
      return {};
    case PickleGlobal::kUntypedStorage: break;
  }
  return unsupported("calls torch.storage.UntypedStorage");
}

// Attributes of an object: state_dict() gives its OrderedDict the versions of the modules, which nothing here needs.
Status PickleMachine::build() {
  KPT_RETURN_IF_ERROR(pop().status());
  KPT_ASSIGN_OR_RETURN(const PickleNodeId target, pop());
  if (get<PickleNode::Dict>(target) == nullptr) return unsupported("sets attributes of something other than a dict");
  stack_.push_back(target);
  return {};
}

// ('storage', type, key, location, number of elements)
Status PickleMachine::push_persistent() {
  KPT_ASSIGN_OR_RETURN(const PickleNodeId id, pop());
  const auto* tuple = get<PickleNode::Tuple>(id);
  if (tuple == nullptr || tuple->items.size() != 5) return corrupt("its persistent id is not a storage's");
  const auto* kind = get<std::string>(tuple->items[0]);
  const auto* type = get<PickleStorageType>(tuple->items[1]);
  const auto* global = get<PickleGlobal>(tuple->items[1]);
  const auto* key = get<std::string>(tuple->items[2]);
  const auto* count = get<std::int64_t>(tuple->items[4]);
  const bool untyped = global != nullptr && *global == PickleGlobal::kUntypedStorage;
  if (kind == nullptr || *kind != "storage" || (type == nullptr && !untyped) || key == nullptr || count == nullptr) {
    return corrupt("its persistent id is not a storage's");
  }
  auto found = storages_.find(*key);
  if (found == storages_.end()) {
    KPT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, load_(*key));
    found = storages_.emplace(*key, std::move(buffer)).first;
  }
  const std::size_t element = untyped ? 1 : element_bytes(type->dtype);
  std::size_t bytes = 0;
  if (*count < 0 || __builtin_mul_overflow(static_cast<std::size_t>(*count), element, &bytes) ||
      bytes != found->second->bytes()) {
    return corrupt(fmt::format("its storage {} has {} bytes, which are not {} elements", printable(*key, 40),
                               found->second->bytes(), *count));
  }
  push(PickleStorage{found->second, untyped ? std::nullopt : std::optional(type->dtype)});
  return {};
}

Result<std::vector<std::int64_t>> PickleMachine::integers(PickleNodeId tuple) {
  const auto* items = get<PickleNode::Tuple>(tuple);
  if (items == nullptr) return corrupt("a tensor's extents or strides are no tuple");
  std::vector<std::int64_t> values;
  values.reserve(items->items.size());
  for (const PickleNodeId item : items->items) {
    const auto* value = get<std::int64_t>(item);
    if (value == nullptr) return corrupt("a tensor's extents or strides are no integers");
    values.push_back(*value);
  }
  return values;
}

// (storage, offset, extents, strides, requires_grad, hooks[, dtype][, metadata])
Status PickleMachine::rebuild_tensor(std::span<const PickleNodeId> arguments, bool with_dtype) {
  const std::size_t needed = with_dtype ? 7 : 6;
  if (arguments.size() < needed || arguments.size() > needed + 1) {
    return corrupt(fmt::format("a tensor is made from {} arguments", arguments.size()));
  }
  const auto* storage = get<PickleStorage>(arguments[0]);
  const auto* offset = get<std::int64_t>(arguments[1]);
  const auto* hooks = get<PickleNode::Dict>(arguments[5]);
  const auto* given_dtype = with_dtype ? get<DType>(arguments[6]) : nullptr;
  if (storage == nullptr || offset == nullptr || hooks == nullptr || (with_dtype && given_dtype == nullptr)) {
    return corrupt("a tensor is made from arguments of wrong types");
  }
  const std::optional<DType> dtype = with_dtype ? *given_dtype : storage->dtype;
  if (!dtype) return corrupt("a tensor has no element type");
  if (!hooks->pairs.empty()) return unsupported("holds a tensor with hooks");
  if (arguments.size() > needed) {
    const auto* metadata = get<PickleNode::Dict>(arguments[needed]);
    const bool none = get<PickleValue::None>(arguments[needed]) != nullptr;
    if (!none && (metadata == nullptr || !metadata->pairs.empty())) {
      return unsupported(
          "holds a tensor with metadata, such as lazy conjugation; save tensor.clone() or resolve_conj()");
    }
  }
  KPT_ASSIGN_OR_RETURN(const std::vector<std::int64_t> dims, integers(arguments[2]));
  KPT_ASSIGN_OR_RETURN(const std::vector<std::int64_t> strides, integers(arguments[3]));
  if (dims.size() != strides.size()) return corrupt("a tensor has another number of strides than of extents");
  if (dims.size() > kMaxRank) return unsupported(fmt::format("holds a tensor of a rank above {}", kMaxRank));
  // A slice without elements may begin behind the end of its storage.
  const bool empty = count_elements(dims) == 0;
  const auto tensor = Tensor::from_buffer(storage->buffer, *dtype, dims, strides, empty ? 0 : *offset);
  if (!tensor.ok()) return corrupt(tensor.status().message());
  push(*tensor);
  return {};
}

// (tensor, requires_grad, hooks)
Status PickleMachine::rebuild_parameter(std::span<const PickleNodeId> arguments) {
  if (arguments.size() != 3 || get<Tensor>(arguments[0]) == nullptr) {
    return corrupt("a parameter is made from something other than a tensor");
  }
  stack_.push_back(arguments[0]);
  return {};
}

// (type[, index])
Status PickleMachine::make_device(std::span<const PickleNodeId> arguments) {
  const auto* type = arguments.empty() ? nullptr : get<std::string>(arguments[0]);
  const auto* index = arguments.size() == 2 ? get<std::int64_t>(arguments[1]) : nullptr;
  if (type == nullptr || arguments.size() > 2 || (arguments.size() == 2 && index == nullptr)) {
    return corrupt("a device is made from something other than a name and a number");
  }
  push(PickleDevice{*type, index == nullptr ? std::nullopt : std::optional(*index)});
  return {};
}

}  // namespace kpt
