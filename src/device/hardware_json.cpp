#include "device/hardware_json.h"

namespace nlohmann {

// nlohmann-json 3.11 has no std::optional.
template <typename T>
struct adl_serializer<std::optional<T>> {
  template <typename Json>
  static void to_json(Json& json, const std::optional<T>& value) {
    if (value) {
      json = *value;
    } else {
      json = nullptr;
    }
  }
  template <typename Json>
  static void from_json(const Json& json, std::optional<T>& value) {
    value = json.is_null() ? std::optional<T>() : std::optional<T>(json.template get<T>());
  }
};

}  // namespace nlohmann

namespace kpt {

NLOHMANN_JSON_SERIALIZE_ENUM(Presence, {{Presence::kAbsent, "absent"},
                                        {Presence::kPresent, "present"},
                                        {Presence::kBroken, "broken"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Fp8Flavour,
                             {{Fp8Flavour::kNone, "none"}, {Fp8Flavour::kFnuz, "fnuz"}, {Fp8Flavour::kOcp, "ocp"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Precision, {{Precision::kFp64, "fp64"},
                                         {Precision::kFp32, "fp32"},
                                         {Precision::kTf32, "tf32"},
                                         {Precision::kFp16, "fp16"},
                                         {Precision::kBf16, "bf16"},
                                         {Precision::kFp8, "fp8"},
                                         {Precision::kFp6, "fp6"},
                                         {Precision::kFp4, "fp4"},
                                         {Precision::kInt8, "int8"},
                                         {Precision::kInt4, "int4"}})

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFp64: return "fp64";
    case Precision::kFp32: return "fp32";
    case Precision::kTf32: return "tf32";
    case Precision::kFp16: return "fp16";
    case Precision::kBf16: return "bf16";
    case Precision::kFp8: return "fp8";
    case Precision::kFp6: return "fp6";
    case Precision::kFp4: return "fp4";
    case Precision::kInt8: return "int8";
    case Precision::kInt4: return "int4";
  }
  return "unknown";
}

// Writes and reads the same list of fields; a field absent in the text keeps its default.
#define KPT_TO(field) json[#field] = value.field;
#define KPT_FROM(field) \
  if (const auto found = json.find(#field); found != json.end()) found->get_to(value.field);
#define KPT_JSON_FIELDS(Type, ...)                                                                         \
  void to_json(nlohmann::ordered_json& json, const Type& value) {                                          \
    json = nlohmann::ordered_json::object();                                                               \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(KPT_TO, __VA_ARGS__))                                         \
  }                                                                                                        \
  void from_json(const nlohmann::ordered_json& json, Type& value) {                                        \
    if (!json.is_object()) throw nlohmann::json::type_error::create(302, "an object was expected", &json); \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(KPT_FROM, __VA_ARGS__))                                       \
  }

static void to_json(nlohmann::ordered_json& json, const NvidiaGpu& value);
static void from_json(const nlohmann::ordered_json& json, NvidiaGpu& value);
static void to_json(nlohmann::ordered_json& json, const AmdGpu& value);
static void from_json(const nlohmann::ordered_json& json, AmdGpu& value);
static void to_json(nlohmann::ordered_json& json, const CpuCache& value);
static void from_json(const nlohmann::ordered_json& json, CpuCache& value);

KPT_JSON_FIELDS(Finding, presence, reason, remedy)
KPT_JSON_FIELDS(NvidiaGpu, index, name, uuid, pci_bus_id, capability_major, capability_minor, architecture,
                multiprocessors, memory_total_bytes, memory_free_bytes, clock_sm_mhz, clock_memory_mhz, ecc_enabled,
                mig_enabled, matrix_precisions)
KPT_JSON_FIELDS(NvidiaReport, finding, driver_version, cuda_driver_version, gpus, notes)
KPT_JSON_FIELDS(AmdGpu, index, name, gfx_target, architecture, pci_bus_id, compute_units, wavefront_size,
                memory_total_bytes, has_matrix_cores, fp8_flavour, matrix_precisions)
KPT_JSON_FIELDS(AmdReport, finding, source, rocm_version, hip_runtime_version, gpus, notes)
KPT_JSON_FIELDS(TpuReport, finding, generation, chips, cores_per_chip, topology, accelerator_type, hbm_bytes_per_chip,
                libtpu_path, libtpu_version, notes)
KPT_JSON_FIELDS(PjrtPlugin, name, path, source, finding, api_major, api_minor)
KPT_JSON_FIELDS(CpuCache, level, type, size_bytes)
KPT_JSON_FIELDS(CpuReport, model, architecture, logical_cpus, usable_cpus, numa_nodes, isa, matrix_precisions, caches,
                memory_total_bytes, memory_limit_bytes, notes)

}  // namespace kpt
