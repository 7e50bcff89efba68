#include "tensor_files/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "archive/json_reader.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "base/text.h"
#include "tensor_files/tensor_bytes.h"

namespace kpt {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, 19> kSafetensorsTypes{{
    {"BOOL", DType::kBool},
    {"U8", DType::kUInt8},
    {"I8", DType::kInt8},
    {"U16", DType::kUInt16},
    {"I16", DType::kInt16},
    {"U32", DType::kUInt32},
    {"I32", DType::kInt32},
    {"U64", DType::kUInt64},
    {"I64", DType::kInt64},
    {"F8_E4M3", DType::kFloat8E4M3FN},
    {"F8_E4M3FNUZ", DType::kFloat8E4M3FNUZ},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"F8_E5M2FNUZ", DType::kFloat8E5M2FNUZ},
    {"F8_E8M0", DType::kFloat8E8M0FNU},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"C64", DType::kComplex64},
}};

std::optional<DType> find_type(std::string_view name) {
  const auto* found = std::ranges::find(kSafetensorsTypes, name, &std::pair<std::string_view, DType>::first);
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string_view> find_type_name(DType dtype) {
  const auto* found = std::ranges::find(kSafetensorsTypes, dtype, &std::pair<std::string_view, DType>::second);
  return found == kSafetensorsTypes.end() ? std::nullopt : std::optional(found->first);
}

// One member of the header.
struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> dims;
  std::uint64_t begin = 0;  // in the data, behind the header
  std::uint64_t end = 0;
};

class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string file) : reader_(text, file), file_(std::move(file)) {}

  Status read(std::vector<Entry>& entries, SafetensorsMetadata& metadata) {
    const auto visit = [&](std::string_view key) -> Status {
      if (key == kMetadataKey) return read_metadata(metadata);
      Entry entry;
      entry.name = key;
      KPT_RETURN_IF_ERROR(read_entry(entry));
      entries.push_back(std::move(entry));
      return {};
    };
    KPT_RETURN_IF_ERROR(reader_.object(visit));
    return reader_.finish();
  }

 private:
  Status read_metadata(SafetensorsMetadata& metadata) {
    return reader_.object([&](std::string_view key) -> Status {
      std::string name(key);
      std::string value;
      KPT_RETURN_IF_ERROR(reader_.string(&value));
      metadata.insert_or_assign(std::move(name), std::move(value));
      return {};
    });
  }

  Status read_entry(Entry& entry) {
    std::string type;
    bool has_type = false;
    bool has_dims = false;
    bool has_place = false;
    KPT_RETURN_IF_ERROR(reader_.object([&](std::string_view key) -> Status {
      if (key == "dtype") {
        has_type = true;
        return reader_.string(&type);
      }
      if (key == "shape") {
        has_dims = true;
        return read_dims(entry);
      }
      if (key == "data_offsets") {
        has_place = true;
        return read_place(entry);
      }
      return reader_.skip();
    }));
    if (!has_type || !has_dims || !has_place) {
      return reader_.error(
          fmt::format("the tensor \"{}\" lacks dtype, shape or data_offsets", printable(entry.name, 200)));
    }
    const std::optional<DType> dtype = find_type(type);
    if (!dtype) {
      return {StatusCode::kUnsupported,
              fmt::format("the tensor \"{}\" in {} has the element type {}, which is not known",
                          printable(entry.name, 200), file_, printable(type, 40))};
    }
    entry.dtype = *dtype;
    return {};
  }

  Status read_dims(Entry& entry) {
    return reader_.array([&]() -> Status {
      std::int64_t extent = 0;
      KPT_RETURN_IF_ERROR(reader_.integer(&extent));
      if (extent < 0) return reader_.error("an extent is negative");
      if (entry.dims.size() == kMaxRank) {
        return {StatusCode::kUnsupported, fmt::format("the tensor \"{}\" in {} has a rank above {}",
                                                      printable(entry.name, 200), file_, kMaxRank)};
      }
      entry.dims.push_back(extent);
      return {};
    });
  }

  Status read_place(Entry& entry) {
    std::array<std::int64_t, 2> place{};
    std::size_t count = 0;
    KPT_RETURN_IF_ERROR(reader_.array([&]() -> Status {
      if (count == place.size()) return reader_.error("data_offsets has more than two numbers");
      return reader_.integer(&place[count++]);
    }));
    if (count != place.size() || place[0] < 0 || place[1] < place[0]) {
      return reader_.error("data_offsets is not a pair of rising numbers");
    }
    entry.begin = static_cast<std::uint64_t>(place[0]);
    entry.end = static_cast<std::uint64_t>(place[1]);
    return {};
  }

  JsonReader reader_;
  std::string file_;
};

// The tensors must fill the data from its first byte to its last, each with as many bytes as its elements need.
Status check_layout(const std::vector<Entry>& entries, std::uint64_t data_bytes, const std::string& file) {
  std::vector<const Entry*> by_place;
  by_place.reserve(entries.size());
  for (const Entry& entry : entries) by_place.push_back(&entry);
  std::ranges::sort(by_place, [](const Entry* a, const Entry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t position = 0;
  for (const Entry* entry : by_place) {
    const auto corrupt = [&](std::string_view what) {
      return Status(StatusCode::kCorruptData,
                    fmt::format("the tensor \"{}\" in {} {}", printable(entry->name, 200), file, what));
    };
    const std::optional<std::size_t> bytes = count_bytes(entry->dtype, entry->dims);
    if (!bytes) return corrupt("has more elements than can be counted");
    if (*bytes != entry->end - entry->begin) {
      return corrupt(fmt::format("has {} bytes, but its type and extents need {}", entry->end - entry->begin, *bytes));
    }
    if (entry->begin < position) return corrupt("overlaps another one");
    if (entry->begin > position) return corrupt(fmt::format("leaves a hole of {} bytes", entry->begin - position));
    if (entry->end > data_bytes) return corrupt("reaches beyond the end of the file");
    position = entry->end;
  }
  if (position != data_bytes) {
    return {StatusCode::kCorruptData,
            fmt::format("{} has {} bytes that belong to no tensor", file, data_bytes - position)};
  }
  return {};
}

struct Plan {
  std::string header;              // with its length before and spaces behind
  std::vector<std::size_t> order;  // of the tensors' bytes
};

Result<Plan> plan_file(std::span<const NamedTensor> tensors, const SafetensorsMetadata& metadata) {
  Plan plan;
  plan.order.resize(tensors.size());
  std::iota(plan.order.begin(), plan.order.end(), std::size_t{0});
  std::ranges::stable_sort(plan.order, std::greater{},
                           [&](std::size_t i) { return element_alignment(tensors[i].tensor.dtype()); });
  std::vector<std::uint64_t> begins(tensors.size());
  std::uint64_t position = 0;
  for (const std::size_t i : plan.order) {
    begins[i] = position;
    position += tensors[i].tensor.bytes();
  }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::string text;
  try {
    text = header.dump();
    text.pop_back();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i].tensor;
      nlohmann::ordered_json entry;
      entry["dtype"] = *find_type_name(tensor.dtype());
      entry["shape"] = std::vector<std::int64_t>(tensor.dims().begin(), tensor.dims().end());
      entry["data_offsets"] = {begins[i], begins[i] + tensor.bytes()};
      if (text.size() > 1) text += ',';
      text += nlohmann::json(tensors[i].name).dump() + ':' + entry.dump();
    }
  } catch (const nlohmann::json::exception&) {
    return Status(StatusCode::kInvalidArgument, "a tensor's name or a text of the metadata is not UTF-8");
  }
  text += '}';
  constexpr std::size_t kAlignment = 64;
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("a safetensors header of {} is above the limit of 100 MB", format_bytes(text.size())));
  }
  append_little_endian(plan.header, std::uint64_t{text.size()});
  plan.header += text;
  return plan;
}

Status check_tensors(std::span<const NamedTensor> tensors) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    const std::string shown = printable(named.name, 200);
    if (named.name == kMetadataKey || !names.insert(named.name).second) {
      return {StatusCode::kInvalidArgument,
              fmt::format("a safetensors file cannot hold another tensor named \"{}\"", shown)};
    }
    if (!find_type_name(named.tensor.dtype())) {
      return {StatusCode::kUnsupported, fmt::format("safetensors has no element type for {} of the tensor \"{}\"",
                                                    to_string(named.tensor.dtype()), shown)};
    }
    if (!named.tensor.defined()) {
      return {StatusCode::kInvalidArgument, fmt::format("the tensor \"{}\" has no memory to write", shown)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<NamedTensor>> read_safetensors(const std::shared_ptr<const MappedFile>& file,
                                                  SafetensorsMetadata* metadata) {
  const std::string name = file->path().string();
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < kLengthBytes) {
    return Status(StatusCode::kCorruptData, fmt::format("{} is too short for a safetensors file", name));
  }
  const auto header_bytes = load_little_endian<std::uint64_t>(bytes.data());
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    return Status(StatusCode::kCorruptData,
                  fmt::format("{} claims a safetensors header of {} bytes, more than the file or the format allows",
                              name, header_bytes));
  }
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes);
  std::vector<Entry> entries;
  SafetensorsMetadata found;
  KPT_RETURN_IF_ERROR(HeaderReader(header, name).read(entries, found));
  KPT_RETURN_IF_ERROR(check_layout(entries, data.size(), name));
  std::vector<NamedTensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    KPT_ASSIGN_OR_RETURN(
        Tensor tensor, tensor_from(file, data.subspan(entry.begin, entry.end - entry.begin), entry.dtype, entry.dims));
    tensors.push_back({std::move(entry.name), std::move(tensor)});
  }
  if (metadata != nullptr) *metadata = std::move(found);
  return tensors;
}

Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         const SafetensorsMetadata& metadata) {
  KPT_RETURN_IF_ERROR(check_tensors(tensors));
  KPT_ASSIGN_OR_RETURN(const Plan plan, plan_file(tensors, metadata));
  KPT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  KPT_RETURN_IF_ERROR(file.write(plan.header));
  for (const std::size_t i : plan.order) {
    KPT_ASSIGN_OR_RETURN(const Tensor tensor, make_contiguous(tensors[i].tensor, tensors[i].name));
    const std::span<const std::byte> bytes = bytes_of(tensor);
    KPT_RETURN_IF_ERROR(file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return file.commit();
}

}  // namespace kpt
