#include "kernels/cpu/matrix_kernel.h"

#include <utility>

#include "kernels/cpu/kernel_list.h"

namespace kpt::kernels {
namespace {

void add(std::vector<KernelCandidate>& list, MatrixKernel kernel, bool present, std::string_view instructions) {
  std::string why_not;
  if (!present) why_not = "this processor has no " + std::string(instructions);
  list.push_back({kernel, std::move(why_not)});
}

}  // namespace

std::string_view to_string(LinearForm form) {
  switch (form) {
    case LinearForm::kFloat32: return "float32";
    case LinearForm::kBfloat16: return "bfloat16";
    case LinearForm::kInt8: return "int8";
    case LinearForm::kInt4: return "int4";
  }
  return "unknown";
}

std::vector<KernelCandidate> list_kernels(LinearForm form, const CpuFeatures& features) {
  std::vector<KernelCandidate> list;
#if defined(__aarch64__)
  if (form == LinearForm::kInt8) {
    add(list, neon_int8_matrix_kernel(), features.int8_matrix, "8-bit matrix instructions (i8mm)");
    add(list, neon_int8_dot_kernel(), features.dot_product, "dot product instructions (asimddp)");
  } else {
    if (form == LinearForm::kBfloat16) {
      add(list, neon_bfloat16_matrix_kernel(), features.bfloat16_matrix, "bfloat16 matrix instructions (bf16)");
    }
    add(list, neon_kernel(form), features.neon, "NEON");
  }
#elif defined(__x86_64__)
  if (form == LinearForm::kInt8) {
    add(list, avx512_vnni_kernel(), features.avx512_vnni, "AVX-512 dot product instructions (avx512_vnni)");
  } else {
    if (form == LinearForm::kBfloat16) {
      add(list, avx512_bfloat16_kernel(), features.avx512_bfloat16, "AVX-512 bfloat16 instructions (avx512_bf16)");
    }
    add(list, avx512_kernel(form), features.avx512, "AVX-512 (avx512f, avx512bw, avx512dq, avx512vl)");
  }
  add(list, avx2_kernel(form), features.avx2, "AVX2 with FMA");
#else
  static_cast<void>(features);
#endif
  add(list, portable_kernel(form), true, "");
  return list;
}

}  // namespace kpt::kernels
