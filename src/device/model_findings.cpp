#include "device/model_findings.h"

namespace kpt {

std::string_view to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::kSize: return "size";
    case FindingKind::kOperator: return "operator";
    case FindingKind::kElementType: return "element_type";
    case FindingKind::kMatrixUnit: return "matrix_unit";
    case FindingKind::kMemory: return "memory";
  }
  return "unknown";
}

}  // namespace kpt
