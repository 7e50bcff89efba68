#include "device/hardware_json.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

template <typename Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

constexpr std::array kPresences = {
    EnumName<Presence>{Presence::kAbsent, "absent"}, EnumName<Presence>{Presence::kPresent, "present"},
    EnumName<Presence>{Presence::kNotInstalled, "not_installed"}, EnumName<Presence>{Presence::kBroken, "broken"}};
constexpr std::array kFp8Flavours = {EnumName<Fp8Flavour>{Fp8Flavour::kNone, "none"},
                                     EnumName<Fp8Flavour>{Fp8Flavour::kFnuz, "fnuz"},
                                     EnumName<Fp8Flavour>{Fp8Flavour::kOcp, "ocp"}};
constexpr std::array kPrecisions = {
    EnumName<Precision>{Precision::kFp64, "fp64"}, EnumName<Precision>{Precision::kFp32, "fp32"},
    EnumName<Precision>{Precision::kTf32, "tf32"}, EnumName<Precision>{Precision::kFp16, "fp16"},
    EnumName<Precision>{Precision::kBf16, "bf16"}, EnumName<Precision>{Precision::kFp8, "fp8"},
    EnumName<Precision>{Precision::kFp6, "fp6"},   EnumName<Precision>{Precision::kFp4, "fp4"},
    EnumName<Precision>{Precision::kInt8, "int8"}, EnumName<Precision>{Precision::kInt4, "int4"}};

constexpr const auto& names_of(Presence) { return kPresences; }
constexpr const auto& names_of(Fp8Flavour) { return kFp8Flavours; }
constexpr const auto& names_of(Precision) { return kPrecisions; }

template <typename Enum>
std::string_view name_of(Enum value) {
  for (const auto& row : names_of(value)) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

[[noreturn]] void reject(const Json& json, const char* wanted) {
  throw nlohmann::json::type_error::create(302, std::string(wanted) + " was expected", &json);
}

// The library's own get() wraps integers that do not fit and truncates fractions; a child's answer must not become an
// invented figure that way.
template <typename T>
void read_value(const Json& json, T& value) {
  if constexpr (std::is_enum_v<T>) {
    for (const auto& row : names_of(T{})) {
      if (json.is_string() && json.get_ref<const std::string&>() == row.name) {
        value = row.value;
        return;
      }
    }
    reject(json, "a known name");
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<std::uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (!fits) reject(json, "a whole number in range");
    value = json.get<T>();
  } else {
    json.get_to(value);
  }
}

template <typename T>
void read_value(const Json& json, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) read_value(json, value.emplace());
}

template <typename T>
void read_value(const Json& json, std::vector<T>& value) {
  if (!json.is_array()) reject(json, "a list");
  value.clear();
  for (const Json& element : json) read_value(element, value.emplace_back());
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return name_of(value);
  } else {
    return value;
  }
}

template <typename T>
Json write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : Json(nullptr);
}

template <typename T>
Json write_value(const std::vector<T>& value) {
  Json list = Json::array();
  for (const T& element : value) list.push_back(write_value(element));
  return list;
}

}  // namespace

std::string_view to_string(Precision precision) { return name_of(precision); }

std::string dump_json(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string names_of(const std::vector<Precision>& precisions) {
  std::string names;
  for (const Precision precision : precisions) names.append(names.empty() ? "" : " ").append(to_string(precision));
  return names;
}

// Writes and reads the same list of fields; a field absent in the text keeps its default.
#define KPT_TO(field) json[#field] = write_value(value.field);
#define KPT_FROM(field) \
  if (const auto found = json.find(#field); found != json.end()) read_value(*found, value.field);
#define KPT_JSON_FIELDS(Type, ...)                                   \
  void to_json(nlohmann::ordered_json& json, const Type& value) {    \
    json = nlohmann::ordered_json::object();                         \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(KPT_TO, __VA_ARGS__))   \
  }                                                                  \
  void from_json(const nlohmann::ordered_json& json, Type& value) {  \
    if (!json.is_object()) reject(json, "an object");                \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(KPT_FROM, __VA_ARGS__)) \
  }

static void to_json(nlohmann::ordered_json& json, const NvidiaGpu& value);
static void from_json(const nlohmann::ordered_json& json, NvidiaGpu& value);
static void to_json(nlohmann::ordered_json& json, const AmdGpu& value);
static void from_json(const nlohmann::ordered_json& json, AmdGpu& value);
static void to_json(nlohmann::ordered_json& json, const CpuCache& value);
static void from_json(const nlohmann::ordered_json& json, CpuCache& value);

KPT_JSON_FIELDS(Finding, presence, reason, remedy)
KPT_JSON_FIELDS(NvidiaGpu, index, name, uuid, pci_bus_id, capability_major, capability_minor, architecture,
                multiprocessors, max_threads_per_block, max_shared_memory_per_block_bytes, memory_total_bytes,
                memory_free_bytes, clock_sm_mhz, clock_memory_mhz, ecc_enabled, mig_enabled, utilization_percent,
                temperature_celsius, power_milliwatts, power_limit_milliwatts, clock_sm_now_mhz, clock_memory_now_mhz,
                matrix_precisions)
KPT_JSON_FIELDS(NvidiaReport, finding, driver_version, cuda_driver_version, gpus, notes)
KPT_JSON_FIELDS(AmdGpu, index, name, gfx_target, architecture, pci_bus_id, compute_units, wavefront_size,
                memory_total_bytes, has_matrix_cores, fp8_flavour, matrix_precisions)
KPT_JSON_FIELDS(AmdReport, finding, source, rocm_version, hip_runtime_version, gpus, notes)
KPT_JSON_FIELDS(TpuReport, finding, generation, chips, cores_per_chip, topology, accelerator_type, hbm_bytes_per_chip,
                libtpu_path, libtpu_version, notes)
KPT_JSON_FIELDS(PjrtPlugin, name, path, source, finding, api_major, api_minor)
KPT_JSON_FIELDS(CpuCache, level, type, size_bytes)
KPT_JSON_FIELDS(CpuReport, model, architecture, logical_cpus, usable_cpus, numa_nodes, isa, isa_hidden,
                matrix_precisions, caches, memory_total_bytes, memory_limit_bytes, notes)

}  // namespace kpt
