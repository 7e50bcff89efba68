#include "passes/pipeline.h"

#include <algorithm>
#include <array>
#include <vector>

#include "passes/assign_bf16.h"
#include "passes/channels_last.h"
#include "passes/fold_batch_norm.h"
#include "passes/fold_constants.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_conv.h"
#include "passes/fuse_linear.h"
#include "passes/fuse_norm.h"
#include "passes/fuse_rotary.h"
#include "passes/last_token_logits.h"
#include "passes/merge_linear.h"
#include "passes/narrow_results.h"
#include "passes/quantize_weights.h"
#include "passes/recognize_activations.h"
#include "passes/remove_dead_code.h"
#include "passes/remove_in_place.h"
#include "passes/repeated_calls.h"
#include "passes/share_masks.h"

namespace kpt {
namespace {

constexpr std::array<std::string_view, 3> kLevelNames = {"conservative", "balanced", "aggressive"};

constexpr std::uint8_t at(Level level) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(level)); }
constexpr std::uint8_t kEvery = at(Level::kConservative) | at(Level::kBalanced) | at(Level::kAggressive);

constexpr PipelineRow kRows[] = {
    {&kRemoveInPlace, kEvery, "first: nearly all others leave alone what may be written", Accuracy::kExact},
    {&kRemoveDeadCode, kEvery,
     "before patterns are looked for: casts and copies that do nothing stand between their nodes", Accuracy::kExact},
    {&kFoldConstants, kEvery, "makes masks, position tables and scaled weights constants that later passes recognise",
     Accuracy::kExact},
    {&kCommonSubexpressions, kEvery, "after folding, before fusion: what is computed twice would be fused twice",
     Accuracy::kExact},
    {&kFoldBatchNorm, kEvery, "before convolutions are fused, so that their activation comes next",
     Accuracy::kReassociated},
    {&kRecognizeActivations, kEvery, "before products take activations in", Accuracy::kReassociated},
    {&kFuseAttention, kEvery, "before products are fused: what is written out consists of products",
     Accuracy::kReassociated},
    {&kFuseRotary, kEvery, "any place before the norms; needs no other", Accuracy::kReassociated},
    {&kFuseLinear, kEvery, "before norms: a residual is cheaper at the end of a product than in front of a norm",
     Accuracy::kReassociated},
    {&kMergeLinear, kEvery, "needs the activations in their products, to see gates", Accuracy::kReassociated},
    {&kFuseNorm, kEvery, "takes the additions that no product took", Accuracy::kReassociated},
    {&kFuseConv, kEvery, "after batch norms are gone", Accuracy::kReassociated},
    {&kChannelsLast, kEvery, "after convolutions are nodes of ours, which decide their layout", Accuracy::kExact},
    {&kQuantizeInt4, 0,
     "only by name, it loses more accuracy than a level may; before the others, which would take all", Accuracy::kInt4},
    {&kQuantizeWeightsInt8, 0, "only by name, for memory: where products of int8 are fast, they are faster",
     Accuracy::kInt8},
    {&kQuantizeFewRowsInt8, at(Level::kAggressive),
     "before FP8: few rows take what reading the weight takes, and inputs need not be rounded", Accuracy::kInt8},
    {&kQuantizeFp8, at(Level::kAggressive), "before int8: where both are fast, FP8 keeps small numbers better",
     Accuracy::kInt8},
    {&kQuantizeInt8, at(Level::kAggressive), "before bfloat16, which takes what is left", Accuracy::kInt8},
    {&kQuantizeConvsInt8, at(Level::kAggressive), "a pass of its own: it may lose where products gain",
     Accuracy::kInt8},
    {&kAssignBf16, at(Level::kBalanced) | at(Level::kAggressive), "after all fusions: it changes nodes of ours only",
     Accuracy::kBfloat16},
    {&kNarrowResults, at(Level::kBalanced) | at(Level::kAggressive), "after the products have their types",
     Accuracy::kBfloat16},
    {&kCommonSubexpressions, kEvery, "again: fused nodes share masks and views", Accuracy::kExact},
    {&kShareMasks, kEvery, "after attention has its type, and masks that are the same are one", Accuracy::kExact},
    {&kRemoveDeadCode, kEvery, "last: fusion leaves views and copies behind that do nothing any more",
     Accuracy::kExact},
    {&kLastTokenLogits, 0, "only by name: it changes the shape of an output", Accuracy::kExact},
};

std::vector<const Pass*> select(Level level) {
  std::vector<const Pass*> passes;
  for (const PipelineRow& row : kRows) {
    if (row.is_in(level)) passes.push_back(row.pass);
  }
  return passes;
}

// A pass may stand twice; it counts where it stands first.
std::vector<const Pass*> select_all() {
  std::vector<const Pass*> passes;
  for (const PipelineRow& row : kRows) {
    if (std::find(passes.begin(), passes.end(), row.pass) == passes.end()) passes.push_back(row.pass);
  }
  return passes;
}

}  // namespace

std::string_view level_name(Level level) { return kLevelNames.at(static_cast<std::size_t>(level)); }

std::optional<Level> find_level(std::string_view name) {
  for (std::size_t index = 0; index < kLevelNames.size(); ++index) {
    if (kLevelNames[index] == name) return static_cast<Level>(index);
  }
  return std::nullopt;
}

std::string_view accuracy_name(Accuracy accuracy) {
  constexpr std::array<std::string_view, 5> kNames = {"exact", "reassociated", "bfloat16", "int8", "int4"};
  return kNames.at(static_cast<std::size_t>(accuracy));
}

std::span<const PipelineRow> pipeline() { return kRows; }

std::span<const Pass* const> all_passes() {
  static const std::vector<const Pass*> kPasses = select_all();
  return kPasses;
}

std::span<const Pass* const> level_passes(Level level) {
  static const std::array<std::vector<const Pass*>, 3> kPasses = {select(Level::kConservative),
                                                                  select(Level::kBalanced), select(Level::kAggressive)};
  return kPasses.at(static_cast<std::size_t>(level));
}

const Pass* find_pass(std::string_view name) {
  for (const Pass* pass : all_passes()) {
    if (pass->name == name) return pass;
  }
  return nullptr;
}

}  // namespace kpt
