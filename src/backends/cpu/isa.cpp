#include "backends/cpu/isa.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>

namespace kpt {
namespace {

struct IsaRow {
  std::string_view flag;                 // as in /proc/cpuinfo
  std::string_view name;                 // ours; empty when the row only adds a precision
  std::optional<Precision> matrix = {};  // what its matrix or dot-product instructions multiply
};

// AVX512-FP16 and Arm's FP16 arithmetic only widen the vector units; they have no dot product, hence no precision.
constexpr IsaRow kX86Rows[] = {
    {"sse4_2", "SSE4.2"},
    {"avx2", "AVX2"},
    {"fma", "FMA"},
    {"f16c", "F16C"},
    {"avx512f", "AVX512F"},
    {"avx512dq", "AVX512DQ"},
    {"avx512bw", "AVX512BW"},
    {"avx512vl", "AVX512VL"},
    {"avx_vnni", "AVX-VNNI", Precision::kInt8},
    {"avx512_vnni", "AVX512-VNNI", Precision::kInt8},
    {"avx512_bf16", "AVX512-BF16", Precision::kBf16},
    {"avx512_fp16", "AVX512-FP16"},
    {"amx_tile", "AMX-TILE"},
    {"amx_bf16", "AMX-BF16", Precision::kBf16},
    {"amx_int8", "AMX-INT8", Precision::kInt8},
    {"amx_fp16", "AMX-FP16", Precision::kFp16},
};

// SME's rows beside "sme" and "sme2" say which outer products that implementation has.
constexpr IsaRow kArmRows[] = {
    {"asimd", "NEON"},
    {"asimdhp", "FP16"},
    {"asimddp", "DOTPROD", Precision::kInt8},
    {"sve", "SVE"},
    {"sve2", "SVE2"},
    {"bf16", "BF16", Precision::kBf16},
    {"svebf16", "BF16", Precision::kBf16},
    {"i8mm", "I8MM", Precision::kInt8},
    {"svei8mm", "I8MM", Precision::kInt8},
    {"sme", "SME"},
    {"sme2", "SME2"},
    {"smef32f32", "", Precision::kFp32},
    {"smef16f32", "", Precision::kFp16},
    {"smeb16f32", "", Precision::kBf16},
    {"smei8i32", "", Precision::kInt8},
};

template <typename T, typename Value>
void add_once(std::vector<T>& list, const Value& value) {
  if (std::ranges::find(list, value) == list.end()) list.push_back(T(value));
}

bool is_hidden_by(std::string_view word, std::string_view flag) {
  const auto is_one_of = [flag](std::initializer_list<std::string_view> flags) {
    return std::ranges::find(flags, flag) != flags.end();
  };
  if (word == "no-dotprod") return is_one_of({"asimddp", "i8mm", "svei8mm"});
  if (word == "no-i8mm") return is_one_of({"i8mm", "svei8mm"});
  if (word == "no-bf16") return is_one_of({"bf16", "svebf16", "smeb16f32", "avx512_bf16", "amx_bf16"});
  if (word == "no-sme") return flag.starts_with("sme");
  if (word == "no-avx512") return flag.starts_with("avx512") || flag.starts_with("amx_");
  if (word == "no-vnni") return is_one_of({"avx_vnni", "avx512_vnni", "amx_int8"});
  if (word == "no-amx") return flag.starts_with("amx_");
  if (word == "no-avx2") {
    return is_one_of({"avx2", "fma", "avx_vnni"}) || flag.starts_with("avx512") || flag.starts_with("amx_");
  }
  return false;
}

}  // namespace

IsaSummary summarize_isa(std::string_view architecture, const std::vector<std::string>& flags,
                         std::span<const std::string> hide) {
  std::span<const IsaRow> rows;
  if (architecture == "x86_64") rows = kX86Rows;
  if (architecture == "aarch64") rows = kArmRows;
  IsaSummary summary;
  for (const IsaRow& row : rows) {
    if (std::ranges::find(flags, row.flag) == flags.end()) continue;
    if (std::ranges::any_of(hide, [&](const std::string& word) { return is_hidden_by(word, row.flag); })) {
      if (!row.name.empty()) add_once(summary.hidden, row.name);
      continue;
    }
    if (!row.name.empty()) add_once(summary.names, row.name);
    if (row.matrix) add_once(summary.matrix_precisions, *row.matrix);
  }
  std::ranges::sort(summary.matrix_precisions);
  return summary;
}

}  // namespace kpt
