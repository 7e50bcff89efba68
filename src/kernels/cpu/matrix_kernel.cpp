#include "kernels/cpu/matrix_kernel.h"

#include <utility>

#include "kernels/cpu/kernel_list.h"

namespace kpt::kernels {
namespace {

// In the order of asking; what the processor lacks, or may not use, says so.
class CandidateList {
 public:
  explicit CandidateList(const CpuFeatures& features) : features_(features) {}

  void add(MatrixKernel kernel, bool CpuFeatures::* feature, std::string_view instructions) {
    std::string why_not;
    if (features_.is_hidden(feature)) {
      why_not = std::string(instructions) + ": hidden by cpu.isa";
    } else if (!(features_.*feature)) {
      why_not = "this processor has no " + std::string(instructions);
    }
    list_.push_back({kernel, std::move(why_not)});
  }
  std::vector<KernelCandidate> finish(MatrixKernel last) {
    list_.push_back({last, ""});
    return std::move(list_);
  }

 private:
  const CpuFeatures& features_;
  std::vector<KernelCandidate> list_;
};

}  // namespace

std::string_view to_string(LinearForm form) {
  switch (form) {
    case LinearForm::kFloat32: return "float32";
    case LinearForm::kBfloat16: return "bfloat16";
    case LinearForm::kInt8: return "int8";
    case LinearForm::kWeightInt8: return "weight_int8";
    case LinearForm::kInt4: return "int4";
  }
  return "unknown";
}

std::vector<KernelCandidate> list_kernels(LinearForm form, const CpuFeatures& features) {
  CandidateList list(features);
#if defined(__aarch64__)
  if (form == LinearForm::kInt8) {
    list.add(neon_int8_matrix_kernel(), &CpuFeatures::int8_matrix, "8-bit matrix instructions (i8mm)");
    list.add(neon_int8_dot_kernel(), &CpuFeatures::dot_product, "dot product instructions (asimddp)");
  } else {
    if (form == LinearForm::kBfloat16) {
      list.add(neon_bfloat16_matrix_kernel(), &CpuFeatures::bfloat16_matrix, "bfloat16 matrix instructions (bf16)");
    }
    list.add(neon_kernel(form), &CpuFeatures::neon, "NEON");
  }
#elif defined(__x86_64__)
  if (form == LinearForm::kInt8) {
    list.add(amx_int8_kernel(), &CpuFeatures::amx_int8, "8-bit tile instructions (amx_int8)");
    list.add(avx512_vnni_kernel(), &CpuFeatures::avx512_vnni, "AVX-512 dot product instructions (avx512_vnni)");
  } else {
    if (form == LinearForm::kBfloat16) {
      list.add(amx_bfloat16_kernel(), &CpuFeatures::amx_bfloat16, "bfloat16 tile instructions (amx_bf16)");
      list.add(avx512_bfloat16_kernel(), &CpuFeatures::avx512_bfloat16, "AVX-512 bfloat16 instructions (avx512_bf16)");
    }
    constexpr std::string_view kAvx512 = "AVX-512 (avx512f, avx512bw, avx512dq, avx512vl)";
    list.add(avx512_kernel(form), &CpuFeatures::avx512, kAvx512);
    // Behind the other: on two threads the products of BERT and GPT-2 take 7 to 10 % longer by it. Convolutions ask for
    // it.
    if (form == LinearForm::kFloat32) list.add(avx512_streamed_kernel(), &CpuFeatures::avx512, kAvx512);
  }
  list.add(avx2_kernel(form), &CpuFeatures::avx2, "AVX2 with FMA");
#endif
  return list.finish(portable_kernel(form));
}

std::string list_refused(LinearForm form, const CpuFeatures& features) {
  std::string text;
  for (const KernelCandidate& candidate : list_kernels(form, features)) {
    if (candidate.why_not.empty()) break;
    text += std::string("; not ") + std::string(candidate.kernel.name) + ": " + candidate.why_not;
  }
  return text;
}

}  // namespace kpt::kernels
