#include "engines/aten/torch_report.h"

#include "device/hardware_json.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

// Both directions of a record walk over the same list of fields, so that they cannot come apart.
class Writer {
 public:
  explicit Writer(Json* json) : json_(json) { *json_ = Json::object(); }
  template <typename T>
  void field(const char* name, const T& value) {
    (*json_)[name] = value;
  }
  template <typename T>
  void field(const char* name, const std::optional<T>& value) {
    (*json_)[name] = value ? Json(*value) : Json(nullptr);
  }

 private:
  Json* json_;
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.is_object()) throw nlohmann::json::type_error::create(302, "an object was expected", &json);
  }
  template <typename T>
  void field(const char* name, T& value) {
    if (const auto found = json_.find(name); found != json_.end()) found->get_to(value);
  }
  template <typename T>
  void field(const char* name, std::optional<T>& value) {
    const auto found = json_.find(name);
    if (found != json_.end() && !found->is_null()) value = found->template get<T>();
  }

 private:
  const Json& json_;
};

template <typename Visitor, typename Check>
void visit_check(Visitor&& visitor, Check& check) {
  visitor.field("device", check.device);
  visitor.field("dtype", check.dtype);
  visitor.field("seed", check.seed);
  visitor.field("rows", check.rows);
  visitor.field("inner", check.inner);
  visitor.field("columns", check.columns);
  visitor.field("relative_error", check.relative_error);
  visitor.field("tolerance", check.tolerance);
  visitor.field("passed", check.passed);
}

template <typename Visitor, typename Device>
void visit_device(Visitor&& visitor, Device& device) {
  visitor.field("index", device.index);
  visitor.field("name", device.name);
  visitor.field("capability_major", device.capability_major);
  visitor.field("capability_minor", device.capability_minor);
  visitor.field("multiprocessors", device.multiprocessors);
  visitor.field("memory_total_bytes", device.memory_total_bytes);
  visitor.field("memory_free_bytes", device.memory_free_bytes);
  visitor.field("reserved_bytes", device.reserved_bytes);
}

template <typename Visitor, typename Report>
void visit_report(Visitor&& visitor, Report& report) {
  visitor.field("finding", report.finding);
  visitor.field("torch_dir", report.torch_dir);
  visitor.field("source", report.source);
  visitor.field("library_version", report.library_version);
  visitor.field("flavour", report.flavour);
  visitor.field("cudnn_version", report.cudnn_version);
  visitor.field("module_path", report.module_path);
  visitor.field("module_version", report.module_version);
  visitor.field("threads", report.threads);
  visitor.field("cpu_capability", report.cpu_capability);
  visitor.field("blas", report.blas);
  visitor.field("checks", report.checks);
  visitor.field("cuda", report.cuda);
  visitor.field("cuda_module_path", report.cuda_module_path);
  visitor.field("cuda_own_kernels", report.cuda_own_kernels);
  visitor.field("cuda_devices", report.cuda_devices);
  visitor.field("open_seconds", report.open_seconds);
  visitor.field("cuda_open_seconds", report.cuda_open_seconds);
  visitor.field("notes", report.notes);
}

}  // namespace

// Found by argument-dependent lookup from the vectors in the report.
static void to_json(Json& json, const TorchMatmulCheck& value) { visit_check(Writer(&json), value); }
static void from_json(const Json& json, TorchMatmulCheck& value) { visit_check(Reader(json), value); }
static void to_json(Json& json, const TorchCudaDevice& value) { visit_device(Writer(&json), value); }
static void from_json(const Json& json, TorchCudaDevice& value) { visit_device(Reader(json), value); }

void to_json(Json& json, const TorchReport& value) { visit_report(Writer(&json), value); }
void from_json(const Json& json, TorchReport& value) { visit_report(Reader(json), value); }

}  // namespace kpt
