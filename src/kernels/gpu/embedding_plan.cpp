#include <string>

#include "kernels/gpu/embedding.h"
#include "kernels/gpu/embedding_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {

Result<Plan> plan_embedding(const EmbeddingCall& call, const DeviceShape& /*device*/) {
  constexpr std::string_view kEmbeddingName = "embedding";
  if (call.id_dtype != DType::kInt64 && call.id_dtype != DType::kInt32) {
    return invalid_call(kEmbeddingName, fmt::format("ids are {} and must be int64 or int32", to_string(call.id_dtype)));
  }
  const auto bytes = static_cast<std::int64_t>(element_bytes(call.dtype));
  KPT_RETURN_IF_ERROR(check_sizes(kEmbeddingName, {call.count, call.width, bytes}));
  KPT_RETURN_IF_ERROR(check_sizes(kEmbeddingName, {call.table_rows, call.table_stride, bytes}));
  if (call.count == 0 || call.width == 0) return Plan{};
  if (call.ids == nullptr || call.output == nullptr || (call.table_rows > 0 && call.table == nullptr)) {
    return invalid_call(kEmbeddingName, "table, ids and output must be given");
  }
  if (!is_aligned(call.ids, element_bytes(call.id_dtype)))
    return invalid_call(kEmbeddingName, "the ids are not aligned");
  // The largest piece that rows and addresses are multiples of.
  std::int64_t piece = 16;
  while (piece > 1 && (!are_multiples({call.width * bytes, call.table_stride * bytes}, piece) || piece == 8 ||
                       !is_aligned(call.table, static_cast<std::size_t>(piece)) ||
                       !is_aligned(call.output, static_cast<std::size_t>(piece)))) {
    piece /= 2;
  }
  EmbeddingArgs args{};
  args.table = call.table;
  args.ids = call.ids;
  args.output = call.output;
  args.out_of_range = call.out_of_range;
  args.count = call.count;
  args.table_rows = call.table_rows;
  args.table_stride = call.table_stride * bytes / piece;
  args.units = call.width * bytes / piece;
  const std::int64_t blocks = divide_up(call.count * args.units, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kEmbeddingName, blocks));
  const std::string kernel = fmt::format("embedding_b{}_{}", 8 * piece, call.id_dtype == DType::kInt64 ? "i64" : "i32");
  return Plan{make_launch(kernel, blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
