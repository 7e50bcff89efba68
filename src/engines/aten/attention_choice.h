// Which kernel computes kpt.attention on an NVIDIA GPU, and why none of the others. Needs no device and no libtorch.
// cuDNN is our choice; among the other three libtorch chooses by the same rules (2.11 to 2.15), so that this says what
// it does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kpt/dtype.h"

namespace kpt::aten {

enum class AttentionKernel : std::uint8_t { kCudnn, kFlash, kMemoryEfficient, kMath };

// What is absent is not known yet and is held against no kernel.
struct AttentionCase {
  DType dtype = DType::kFloat32;  // of query, key and value
  bool masked = false;
  bool causal = false;
  bool shared_heads = false;          // a head of the key serves several of the query
  std::optional<std::int64_t> width;  // of a head
  std::optional<bool> square;         // as many queries as keys
  std::optional<bool> one_key;
  std::optional<int> capability_major;
  bool cudnn_refused = false;  // it had no kernel for a run before
};

struct AttentionCandidate {
  AttentionKernel kernel = AttentionKernel::kMath;
  std::string_view name;
  std::string_view why_not;   // one clause; empty for the one that is taken
  bool shares_heads = false;  // takes shared heads in place; for others they are copied
};

// All kernels, those to be preferred first; exactly one of them is taken.
std::array<AttentionCandidate, 4> choose_attention(const AttentionCase& given);
const AttentionCandidate& find_taken(std::span<const AttentionCandidate> candidates);

// For kpt explain: "flash attention (bfloat16, causal; not cuDNN: …; not memory-efficient: …; not math: …)".
std::string describe_attention(const AttentionCase& given);

}  // namespace kpt::aten
