// Every kernel compiled for AMD targets, where a compiler is that knows them. Results are kept in the build folder.
#include "backends/amd/kernel_table.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/amd/code_object.h"
#include "backends/amd/target_traits.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/text.h"
#include "kernels/gpu/kernel_sources.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/norm.h"
#include "support/rounds.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

constexpr std::chrono::minutes kTableLimit{5};

CompileCache open_cache() {
  return std::move(CompileCache::open(build_dir() + "/amd_kernel_cache", 1U << 30U)).value();
}

// Families whose lanes work alone: LDS in them is an array that did not stay in registers.
bool shares_nothing(std::string_view family) {
  return family == "activation" || family == "convert" || family == "elementwise" || family == "embedding" ||
         family == "gather" || family == "rotary";
}

// Four of them, or with KPT_AMD_TARGETS those that it names: "all" is every row of the table but GCN5 and RDNA1, which
// are there to be named when they are found, and where some norms spill (docs/backends/amd.md).
std::vector<std::string> kernel_targets() {
  const char* chosen = std::getenv("KPT_AMD_TARGETS");  // NOLINT(concurrency-mt-unsafe)
  const std::string_view names = chosen == nullptr || *chosen == '\0' ? "gfx942,gfx950,gfx1100,gfx1201" : chosen;
  std::vector<std::string> targets;
  if (names == "all") {
    for (const AmdArchitecture& row : amd_architectures()) {
      if (row.name != "GCN5" && row.name != "RDNA1") targets.emplace_back(row.gfx_target);
    }
    return targets;
  }
  for (const std::string_view name : split(names, ',')) targets.emplace_back(name);
  return targets;
}

// A page with one target's column alone.
std::string column_of(std::string_view page, std::string_view target) {
  std::string kept;
  std::size_t column = 0;
  for (const std::string_view line : split(page, '\n')) {
    if (!line.starts_with("|")) {
      kept += std::string(line) + "\n";
      continue;
    }
    const std::vector<std::string_view> cells = split(line, '|');
    if (line.starts_with("| kernel ")) {
      const auto found = std::ranges::find(cells, fmt::format(" {} ", target));
      column = static_cast<std::size_t>(found - cells.begin());
    }
    kept += fmt::format("|{}|{}|{}|\n", cells.at(1), cells.at(2), cells.at(column));
  }
  return kept;
}

// What the page says of a target, which is compiled already.
void expect_current_column(HipCompileCache& compilations, std::string_view target) {
  const auto page = read_text_file(source_dir() + "/docs/reference/amd_kernels.md", 1U << 20U);
  ASSERT_TRUE(page.ok()) << page.status().to_string();
  const std::vector<std::string_view> targets = kernel_table_targets();
  if (std::ranges::find(targets, target) == targets.end()) return;
  const std::string& compiler = compilations.compiler().version;
  if (compiler_line(*page) != compiler) {
    GTEST_SKIP() << "the page was made with '" << compiler_line(*page) << "', here is '" << compiler << "'";
  }
  const auto made = kernel_table_page(compilations, std::span(&target, 1));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(column_of(*made, target), column_of(*page, target))
      << "write it anew: cmake --build <build folder> --target reference_amd_kernels";
}

class AmdKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(AmdKernels, CompileWithoutSpillsWithinTheLimitsAsThePageSays) {
  if (testing::kSanitized) GTEST_SKIP() << "the compiler's work is looked at without sanitizers";
  const std::string& target = GetParam();
  ASSERT_NE(find_amd_architecture(target), nullptr) << "KPT_AMD_TARGETS names a target that the table lacks";
  const auto compiler = find_hip_compiler(Environment::from_process(), target);
  if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
  CompileCache cache = open_cache();
  HipCompileCache compilations(*compiler, &cache, kTableLimit);
  const AmdArchitecture& architecture = *find_amd_architecture(target);
  for (const gpu::KernelFamily& entry : gpu::kernel_families()) {
    const std::string_view family = entry.name;
    SCOPED_TRACE(family);
    if (!runs_family(architecture, entry)) continue;  // for other matrix cores
    const auto source = own_kernels(family);
    ASSERT_TRUE(source.ok());
    const auto bytes = compilations.compile(*source, target);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const auto object = read_code_object(std::as_bytes(std::span(*bytes)));
    ASSERT_TRUE(object.ok()) << object.status().to_string();
    EXPECT_EQ(object->gfx_target, target);
    std::size_t wanted = 0;
    for (const gpu::KernelInfo& info : gpu::list_kernels()) {
      if (info.family != family) continue;
      ++wanted;
      const auto kernel = std::ranges::find(object->kernels, info.name, &KernelResources::name);
      ASSERT_NE(kernel, object->kernels.end()) << info.name;
      const Status status = check_resources(architecture, *kernel);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(kernel->private_bytes, 0U) << info.name;  // arrays stay in registers
      if (shares_nothing(family)) {
        EXPECT_EQ(kernel->lds_bytes, 0U) << info.name << ": the compiler put an array into LDS";
      }
      EXPECT_EQ(kernel->max_threads, static_cast<std::uint64_t>(info.max_threads)) << info.name;
      // The arguments are one structure and nothing hidden, so any launcher can fill them in.
      EXPECT_EQ(kernel->argument_bytes, info.arg_bytes) << info.name;
    }
    EXPECT_EQ(object->kernels.size(), wanted);
  }
  expect_current_column(compilations, target);
}

INSTANTIATE_TEST_SUITE_P(Targets, AmdKernels, ::testing::ValuesIn(kernel_targets()));

// What a kernel for matrix cores is made of, by the assembler's names.
struct KernelInstruction {
  const char* family;
  const char* kernel;
  const char* instruction;
};

constexpr KernelInstruction kInstructions[] = {
    {"matrix_cdna2", "matrix_cdna2_f16", "v_mfma_f32_16x16x16f16"},
    {"matrix_cdna2", "matrix_cdna2_bf16", "v_mfma_f32_16x16x16bf16_1k"},
    {"matrix_cdna2", "matrix_cdna2_i8", "v_mfma_i32_16x16x16i8"},
    {"attention_cdna2", "attention_cdna2_f16_64", "v_mfma_f32_16x16x16f16"},
    {"attention_cdna2", "attention_cdna2_f16_128", "v_mfma_f32_16x16x16f16"},
    {"attention_cdna2", "attention_cdna2_bf16_64", "v_mfma_f32_16x16x16bf16_1k"},
    {"attention_cdna2", "attention_cdna2_bf16_128", "v_mfma_f32_16x16x16bf16_1k"},
    {"matrix_cdna3", "matrix_cdna3_f16", "v_mfma_f32_16x16x16_f16"},
    {"matrix_cdna3", "matrix_cdna3_bf16", "v_mfma_f32_16x16x16_bf16"},
    {"matrix_cdna3", "matrix_cdna3_i8", "v_mfma_i32_16x16x32_i8"},
    {"matrix_cdna3", "matrix_cdna3_e4m3fnuz", "v_mfma_f32_16x16x32_fp8_fp8"},
    {"attention_cdna3", "attention_cdna3_f16_64", "v_mfma_f32_16x16x16_f16"},
    {"attention_cdna3", "attention_cdna3_f16_128", "v_mfma_f32_16x16x16_f16"},
    {"attention_cdna3", "attention_cdna3_bf16_64", "v_mfma_f32_16x16x16_bf16"},
    {"attention_cdna3", "attention_cdna3_bf16_128", "v_mfma_f32_16x16x16_bf16"},
    {"matrix_cdna4", "matrix_cdna4_f16", "v_mfma_f32_16x16x32_f16"},
    {"matrix_cdna4", "matrix_cdna4_bf16", "v_mfma_f32_16x16x32_bf16"},
    {"matrix_cdna4", "matrix_cdna4_i8", "v_mfma_i32_16x16x64_i8"},
    {"matrix_cdna4", "matrix_cdna4_e4m3", "v_mfma_f32_16x16x32_fp8_fp8"},
    {"attention_cdna4", "attention_cdna4_f16_64", "v_mfma_f32_16x16x32_f16"},
    {"attention_cdna4", "attention_cdna4_f16_128", "v_mfma_f32_16x16x32_f16"},
    {"attention_cdna4", "attention_cdna4_bf16_64", "v_mfma_f32_16x16x32_bf16"},
    {"attention_cdna4", "attention_cdna4_bf16_128", "v_mfma_f32_16x16x32_bf16"},
    {"matrix_rdna3", "matrix_rdna3_f16", "v_wmma_f32_16x16x16_f16"},
    {"matrix_rdna3", "matrix_rdna3_bf16", "v_wmma_f32_16x16x16_bf16"},
    {"matrix_rdna3", "matrix_rdna3_i8", "v_wmma_i32_16x16x16_iu8"},
    {"attention_rdna3", "attention_rdna3_f16_64", "v_wmma_f32_16x16x16_f16"},
    {"attention_rdna3", "attention_rdna3_f16_128", "v_wmma_f32_16x16x16_f16"},
    {"attention_rdna3", "attention_rdna3_bf16_64", "v_wmma_f32_16x16x16_bf16"},
    {"attention_rdna3", "attention_rdna3_bf16_128", "v_wmma_f32_16x16x16_bf16"},
    {"matrix_rdna4", "matrix_rdna4_f16", "v_wmma_f32_16x16x16_f16"},
    {"matrix_rdna4", "matrix_rdna4_bf16", "v_wmma_f32_16x16x16_bf16"},
    {"matrix_rdna4", "matrix_rdna4_i8", "v_wmma_i32_16x16x16_iu8"},
    {"matrix_rdna4", "matrix_rdna4_e4m3", "v_wmma_f32_16x16x16_fp8_fp8"},
    {"attention_rdna4", "attention_rdna4_f16_64", "v_wmma_f32_16x16x16_f16"},
    {"attention_rdna4", "attention_rdna4_f16_128", "v_wmma_f32_16x16x16_f16"},
    {"attention_rdna4", "attention_rdna4_bf16_64", "v_wmma_f32_16x16x16_bf16"},
    {"attention_rdna4", "attention_rdna4_bf16_128", "v_wmma_f32_16x16x16_bf16"},
};

// One target of each matrix unit, or those with a unit that KPT_AMD_TARGETS names.
std::vector<std::string> matrix_targets() {
  const char* chosen = std::getenv("KPT_AMD_TARGETS");  // NOLINT(concurrency-mt-unsafe)
  if (chosen == nullptr || *chosen == '\0') return {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};
  std::vector<std::string> targets = kernel_targets();
  std::erase_if(targets, [](const std::string& target) {
    const AmdArchitecture* row = find_amd_architecture(target);
    return row == nullptr || matrix_unit_of(*row) == gpu::MatrixUnit::kNone;
  });
  return targets;
}

void expect_instructions(const HipCompiler& compiler, std::string_view family, const std::string& target) {
  const auto assembly = hip_assembly(compiler, std::move(own_kernels(family)).value(), target, kTableLimit);
  ASSERT_TRUE(assembly.ok()) << assembly.status().to_string();
  for (const KernelInstruction& row : kInstructions) {
    if (row.family != family) continue;
    const std::size_t begin = assembly->find(std::string(row.kernel) + ":");
    ASSERT_NE(begin, std::string::npos) << row.kernel;
    const std::string body = assembly->substr(begin, assembly->find(".Lfunc_end", begin) - begin);
    EXPECT_NE(body.find(std::string(row.instruction) + " "), std::string::npos) << row.kernel;
  }
}

TEST(AmdMatrixKernels, HaveTheMatrixInstruction) {
  if (testing::kSanitized) GTEST_SKIP() << "the compiler's work is looked at without sanitizers";
  // With none, as for a GPU without such a unit, nothing is left out.
  for (const std::string& target : matrix_targets()) {
    SCOPED_TRACE(target);
    const auto compiler = find_hip_compiler(Environment::from_process(), target);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    for (const gpu::KernelFamily& family : gpu::kernel_families()) {
      if (family.unit == gpu::MatrixUnit::kNone || !runs_family(*find_amd_architecture(target), family)) continue;
      expect_instructions(*compiler, family.name, target);
    }
  }
}

TEST(AmdMatrixKernels, EveryOneHasItsInstructionNamed) {
  for (const gpu::KernelFamily& family : gpu::kernel_families()) {
    if (family.unit == gpu::MatrixUnit::kNone) continue;
    for (const gpu::KernelInfo& info : gpu::list_kernels()) {
      if (info.family != family.name) continue;
      EXPECT_TRUE(std::ranges::any_of(kInstructions, [&](const auto& row) { return row.kernel == info.name; }))
          << info.name;
    }
  }
}

// A family is for a target when its unit is; the unit's instructions are in the table's row.
TEST(AmdMatrixKernels, EveryTargetHasTheFamiliesOfItsUnit) {
  for (const AmdArchitecture& row : amd_architectures()) {
    std::size_t count = 0;
    for (const gpu::KernelFamily& family : gpu::kernel_families()) {
      count += family.unit != gpu::MatrixUnit::kNone && runs_family(row, family) ? 1U : 0U;
    }
    // gfx908 has matrix cores without the bfloat16 instructions that our kernels use.
    EXPECT_EQ(count, row.matrix_unit == AmdMatrixUnit::kNone || row.gfx_target == "gfx908" ? 0U : 2U) << row.gfx_target;
  }
}

// Some kernels are for NVIDIA alone: no AMD target's plan may name one.
TEST(AmdKernelTable, PlansOfNormsLeadToKernelsOfAmd) {
  alignas(16) static float memory[16];
  gpu::NormBackwardCall call;
  call.kind = gpu::NormKind::kRms;
  call.gradient = call.input = call.input_gradient = memory;
  call.scale = memory;
  call.rows = 1;
  for (const AmdArchitecture& row : amd_architectures()) {
    const gpu::DeviceShape shape = native_traits(row, 100).shape;
    for (const std::int64_t width : {4, 300, 2048, 2052, 8196}) {
      for (const void* third : {static_cast<const void*>(nullptr), static_cast<const void*>(memory)}) {
        call.width = width;
        call.sum_gradient = third;
        const auto plan = gpu::plan_norm_backward(call, shape);
        ASSERT_TRUE(plan.ok()) << plan.status().to_string();
        const auto info = std::ranges::find(gpu::list_kernels(), plan->front().kernel, &gpu::KernelInfo::name);
        ASSERT_NE(info, gpu::list_kernels().end()) << plan->front().kernel;
        EXPECT_NE(gpu::hip_source(info->family), "") << row.gfx_target << " " << info->name;
      }
    }
  }
}

std::string vector_of(const char* type, int count) {
  return count == 1 ? type : fmt::format("{} __attribute__((ext_vector_type({})))", type, count);
}

// What a lane holds of one operand, in the type that the compiler's function takes.
std::string operand_type(const AmdMatrixInstruction& instruction, const AmdArchitecture& architecture) {
  const bool wmma = architecture.matrix_unit == AmdMatrixUnit::kWmma;
  // RDNA3 holds every row twice.
  const int holders = wmma ? (architecture.name.starts_with("RDNA3") ? 16 : 32) : 64;
  const int elements = instruction.m * instruction.k / holders;
  switch (instruction.precision) {
    case Precision::kFp64: return "double";
    case Precision::kFp32:
    case Precision::kTf32: return vector_of("float", elements);
    case Precision::kFp16: return vector_of("_Float16", elements);
    case Precision::kBf16: return vector_of(wmma || elements < 8 ? "short" : "__bf16", elements);
    case Precision::kInt4: return vector_of("int", elements / 8);
    default: break;
  }
  if (instruction.name.starts_with("mfma_scale")) return vector_of("int", 8);
  return !wmma && elements == 8 ? "long" : vector_of("int", elements / 4);
}

std::string call_of(const AmdMatrixInstruction& instruction, const AmdArchitecture& architecture) {
  const bool integer = instruction.name.find("_i32_") != std::string_view::npos;
  const bool wide = instruction.precision == Precision::kFp64;
  const std::string sums = vector_of(integer ? "int" : (wide ? "double" : "float"),
                                     instruction.m * instruction.n / architecture.wavefront_size);
  std::string arguments = "a[0], a[1], *c";
  if (architecture.matrix_unit == AmdMatrixUnit::kMfma) {
    arguments += instruction.name.starts_with("mfma_scale") ? ", 0, 0, 0, 0, 0, 0" : ", 0, 0, 0";
  } else if (integer) {
    arguments = "true, a[0], true, a[1], *c, false";
  }
  return fmt::format(
      "namespace n_{0}_{1} {{ typedef {2}; typedef {3}; }}\nextern \"C\" __attribute__((global)) void k_{0}_{1}"
      "(n_{0}_{1}::A* a, n_{0}_{1}::C* c) {{ *c = __builtin_amdgcn_{0}({4}); }}\n",
      instruction.name, static_cast<int>(instruction.precision),
      [](std::string type) {  // "float __attribute__((…))" → "float A __attribute__((…))"
        return type.insert(std::min(type.find(" __"), type.size()), " A");
      }(operand_type(instruction, architecture)),
      [](std::string type) { return type.insert(std::min(type.find(" __"), type.size()), " C"); }(sums), arguments);
}

// The table's instructions, operands and shapes against the compiler: each becomes one instruction.
TEST(AmdMatrixInstructions, EveryOneOfTheTableBecomesMachineCode) {
  for (const AmdArchitecture& row : amd_architectures()) {
    if (row.matrix_instructions.empty()) continue;
    SCOPED_TRACE(row.gfx_target);
    const auto compiler = find_hip_compiler(Environment::from_process(), row.gfx_target);
    if (!compiler.ok()) GTEST_SKIP() << compiler.status().message();
    HipSource source{"table.hip", "", {}};
    for (const AmdMatrixInstruction& instruction : row.matrix_instructions) source.text += call_of(instruction, row);
    const auto assembly = hip_assembly(*compiler, source, row.gfx_target, kTableLimit);
    ASSERT_TRUE(assembly.ok()) << assembly.status().to_string() << source.text;
    std::size_t count = 0;
    for (const char* mark : {"\tv_mfma_", "\tv_wmma_"}) {
      for (auto at = assembly->find(mark); at != std::string::npos; at = assembly->find(mark, at + 1)) ++count;
    }
    EXPECT_EQ(count, row.matrix_instructions.size());
  }
}

}  // namespace
}  // namespace kpt
