#include "importer/autocast.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/text.h"

namespace kpt {
namespace {

// Names as in targets, without "aten." and ".default"; the lists of PyTorch 2.15.
// clang-format off: one name a line would hide the shape of the tables
constexpr std::string_view kCpuLower[] = {
    "_addmm_activation", "_convolution.deprecated", "_native_multi_head_attention",
    "addbmm", "addmm", "baddbmm", "bmm", "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d",
    "conv3d.padding", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
    "linalg_vecdot", "linear", "matmul", "mkldnn_rnn_layer", "mm", "prelu", "scaled_dot_product_attention"};

constexpr std::string_view kCpuFloat32[] = {
    "_grid_sampler_2d_cpu_fallback", "_lu_with_info", "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cdist", "cholesky_inverse", "cholesky_solve",
    "cosine_embedding_loss", "cross_entropy_loss", "ctc_loss.IntList", "ctc_loss.Tensor",
    "fake_quantize_per_tensor_affine", "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_ifft", "fft_ifft2",
    "fft_ifftn", "fft_ihfft", "fft_irfft", "fft_irfft2", "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn",
    "fractional_max_pool2d", "fractional_max_pool3d", "geqrf", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "hinge_embedding_loss", "huber_loss", "inverse", "kl_div", "l1_loss", "linalg_cholesky", "linalg_cholesky_ex",
    "linalg_cond", "linalg_cond.p_str", "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh",
    "linalg_householder_product", "linalg_inv", "linalg_inv_ex", "linalg_lstsq", "linalg_matrix_rank",
    "linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.tol_tensor",
    "linalg_matrix_sqrth", "linalg_qr", "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_tensorinv",
    "linalg_tensorsolve", "lu_solve", "margin_ranking_loss", "max_pool3d", "max_unpool2d", "max_unpool3d", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_margin_loss_forward", "nanquantile",
    "nanquantile.scalar", "nll_loss", "nll_loss2d", "orgqr", "ormqr", "pinverse", "poisson_nll_loss", "polar", "prod",
    "prod.dim_int", "quantile", "quantile.scalar", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "smooth_l1_loss", "soft_margin_loss", "stft", "stft.center", "svd",
    "trace", "triangular_solve", "triplet_margin_loss", "view_as_complex"};

constexpr std::string_view kCpuWidest[] = {"cat", "index_copy", "stack"};

constexpr std::string_view kCudaLower[] = {
    "_convolution", "_convolution.deprecated", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution",
    "cudnn_convolution", "cudnn_convolution_transpose", "einsum", "gru_cell", "linalg_multi_dot", "linalg_vecdot",
    "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell", "rnn_tanh_cell",
    "scaled_dot_product_attention"};

constexpr std::string_view kCudaFloat32[] = {
    "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d", "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh",
    "cosine_embedding_loss", "cosine_similarity", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1",
    "frobenius_norm.dim", "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "linalg_matrix_sqrth", "linalg_vector_norm", "log", "log10",
    "log1p", "log2", "log_softmax.int", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "native_layer_norm", "nll_loss", "nll_loss2d", "norm.Scalar", "norm.ScalarOpt_dim",
    "nuclear_norm", "nuclear_norm.dim", "pdist", "poisson_nll_loss", "pow.Scalar", "pow.Tensor_Scalar",
    "pow.Tensor_Tensor", "prod", "prod.dim_int", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh", "smooth_l1_loss",
    "soft_margin_loss", "softmax.int", "softplus", "sum", "sum.dim_IntList", "tan", "triplet_margin_loss",
    "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d"};

// Of the above: those that take a result type; one that is given is the user's choice and nothing is cast.
constexpr std::string_view kCudaResultType[] = {
    "cumprod", "cumsum", "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "linalg_vector_norm", "log_softmax.int",
    "prod", "prod.dim_int", "softmax.int", "sum", "sum.dim_IntList"};

constexpr std::string_view kCudaWidest[] = {"addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler",
                                            "index_put", "scatter_add", "tensordot", "vdot"};
// clang-format on

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "aten.mm.default" as the lists write it; empty for operators of other libraries, which are in none.
std::string_view name_in_lists(std::string_view target) {
  constexpr std::string_view kLibrary = "aten.";
  constexpr std::string_view kDefault = ".default";
  if (!target.starts_with(kLibrary)) return {};
  target.remove_prefix(kLibrary.size());
  if (target.ends_with(kDefault)) target.remove_suffix(kDefault.size());
  return target;
}

bool has_result_type(const ir::Node& node) {
  return std::any_of(node.arguments.begin(), node.arguments.end(), [](const ir::NamedArgument& argument) {
    return argument.name == "dtype" && std::holds_alternative<DType>(argument.value.value);
  });
}

// True when one of the tensors among the arguments is of this type; only eligible ones if a region is given.
bool takes(const ir::Graph& graph, const ir::Node& node, DType dtype, const AutocastRegion* region) {
  bool found = false;
  for (const ir::NamedArgument& argument : node.arguments) {
    ir::for_each_value(argument.value, [&](ir::ValueId id) {
      const ir::Value& value = graph.at(id);
      const bool counts =
          value.kind == ir::ValueKind::kTensor && (region == nullptr || is_autocast_eligible(value, *region));
      found = found || (counts && value.tensor.dtype == dtype);
    });
  }
  return found;
}

bool gives(const ir::Graph& graph, const ir::Node& node, DType dtype) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id == ir::kNoValue) continue;
      const ir::Value& value = graph.at(id);
      if (value.kind == ir::ValueKind::kTensor && value.tensor.dtype == dtype) return true;
    }
  }
  return false;
}

// A cast that the program itself asks for is not autocast's work.
bool names_type(const ir::Node& node, DType dtype) {
  return std::any_of(node.arguments.begin(), node.arguments.end(), [dtype](const ir::NamedArgument& argument) {
    const DType* named = std::get_if<DType>(&argument.value.value);
    return named != nullptr && *named == dtype;
  });
}

}  // namespace

bool is_autocast_eligible(const ir::Value& value, const AutocastRegion& region) {
  return value.kind == ir::ValueKind::kTensor && value.tensor.device.type == region.device &&
         is_floating(value.tensor.dtype) && value.tensor.dtype != DType::kFloat64;
}

Result<std::optional<DType>> find_autocast_type(const ir::Graph& graph, const ir::Node& node,
                                                const AutocastRegion& region) {
  const bool cuda = region.device == "cuda";
  if (!cuda && region.device != "cpu") {
    return Status(StatusCode::kUnsupported, "the node '" + printable(node.name, 128) + "' is under autocast for '" +
                                                printable(region.device, 32) + "', which is not supported");
  }
  const std::string_view name = name_in_lists(node.target);
  const auto is_in = [&](std::span<const std::string_view> cpu_list, std::span<const std::string_view> cuda_list) {
    return contains(cuda ? cuda_list : cpu_list, name);
  };
  if (is_in(kCpuLower, kCudaLower)) return std::optional(region.dtype);
  if (is_in(kCpuFloat32, kCudaFloat32)) {
    if (cuda && contains(kCudaResultType, name) && has_result_type(node)) return std::optional<DType>();
    return std::optional(DType::kFloat32);
  }
  if (is_in(kCpuWidest, kCudaWidest)) {
    return std::optional(takes(graph, node, DType::kFloat32, &region) ? DType::kFloat32 : region.dtype);
  }
  const bool acted = gives(graph, node, region.dtype) && !takes(graph, node, region.dtype, nullptr) &&
                     takes(graph, node, DType::kFloat32, &region) && !names_type(node, region.dtype);
  if (acted) {
    return Status(StatusCode::kUnsupported, "the node '" + printable(node.name, 128) + "' (" +
                                                printable(node.target, 128) +
                                                ") is computed under autocast in a way that is not known; export the "
                                                "model in the precision it shall run in");
  }
  return std::optional<DType>();
}

}  // namespace kpt
