#include "engines/aten/attention_choice.h"

#include <algorithm>

#include <fmt/format.h>

namespace kpt::aten {
namespace {

constexpr std::int64_t kCudnnWidest = 128;
constexpr std::int64_t kFlashWidest = 256;
constexpr int kAmpereMajor = 8;

bool is_older_than_ampere(const AttentionCase& given) {
  return given.capability_major.has_value() && *given.capability_major < kAmpereMajor;
}

bool is_multiple(const std::optional<std::int64_t>& width, std::int64_t of) {
  return !width.has_value() || *width % of == 0;
}

bool is_wider(const std::optional<std::int64_t>& width, std::int64_t than) {
  return width.has_value() && *width > than;
}

// It reads shared heads in place and knows the matrix units of the GPU, where the memory-efficient kernel knows
// neither.
std::string_view against_cudnn(const AttentionCase& given) {
  if (given.cudnn_refused) return "it had no kernel for the sizes of a run before";
  if (!given.masked) return "it is taken for masks alone";
  if (given.dtype == DType::kFloat32) return "it has no float32";
  if (is_older_than_ampere(given)) return "it needs Ampere or newer";
  if (is_wider(given.width, kCudnnWidest)) return "the heads are wider than 128";
  if (!is_multiple(given.width, 8)) return "the heads' width is no multiple of 8";
  if (given.one_key.value_or(false)) return "it takes no single key";
  return {};
}

std::string_view against_flash(const AttentionCase& given) {
  if (given.masked) return "it takes no mask";
  if (given.dtype == DType::kFloat32) return "it has no float32";
  if (is_older_than_ampere(given)) return "it needs Ampere or newer";
  if (is_wider(given.width, kFlashWidest)) return "the heads are wider than 256";
  if (given.causal && !given.square.value_or(true)) return "causal, it needs as many queries as keys";
  return {};
}

std::string_view against_memory_efficient(const AttentionCase& given) {
  const bool narrow = given.dtype != DType::kFloat32;
  if (given.dtype == DType::kBFloat16 && is_older_than_ampere(given)) return "it has bfloat16 from Ampere on";
  if (narrow && !is_multiple(given.width, 8)) return "the heads' width is no multiple of 8";
  // Older GPUs multiply float32 without matrix units.
  if (!narrow && !is_older_than_ampere(given) && !is_multiple(given.width, 4)) {
    return "the heads' width is no multiple of 4";
  }
  return {};
}

}  // namespace

std::array<AttentionCandidate, 4> choose_attention(const AttentionCase& given) {
  std::array<AttentionCandidate, 4> candidates = {{
      {AttentionKernel::kCudnn, "cuDNN", against_cudnn(given), true},
      {AttentionKernel::kFlash, "flash", against_flash(given), true},
      {AttentionKernel::kMemoryEfficient, "memory-efficient", against_memory_efficient(given), false},
      {AttentionKernel::kMath, "math", {}, false},
  }};
  bool taken = false;
  for (AttentionCandidate& candidate : candidates) {
    if (taken && candidate.why_not.empty()) {
      candidate.why_not = candidate.kernel == AttentionKernel::kMath ? "it writes all scores to memory"
                                                                     : "it is slower where those before it can";
    }
    taken = taken || candidate.why_not.empty();
  }
  return candidates;
}

const AttentionCandidate& find_taken(std::span<const AttentionCandidate> candidates) {
  return *std::ranges::find_if(candidates, [](const AttentionCandidate& one) { return one.why_not.empty(); });
}

std::string describe_attention(const AttentionCase& given) {
  const auto candidates = choose_attention(given);
  const AttentionCandidate& taken = find_taken(candidates);
  std::string text = fmt::format("{} attention ({}{}{}", taken.name, to_string(given.dtype),
                                 given.masked ? ", mask" : "", given.causal ? ", causal" : "");
  if (given.shared_heads) text += taken.shares_heads ? ", shared heads" : ", shared heads copied";
  for (const AttentionCandidate& candidate : candidates) {
    if (!candidate.why_not.empty()) text += fmt::format("; not {}: {}", candidate.name, candidate.why_not);
  }
  const bool may_have_one_key = taken.kernel == AttentionKernel::kCudnn && !given.one_key.has_value();
  const bool open =
      !given.width.has_value() || (!given.masked && given.causal && !given.square.has_value()) || may_have_one_key;
  return text + (open ? "; sizes of a run may decide otherwise)" : ")");
}

}  // namespace kpt::aten
