#include "kernels/cpu/winograd_run.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/winograd.h"

namespace kpt::kernels {
namespace {

// Of transformed inputs, which wait in L2 for all filters of a task.
constexpr std::int64_t kBlockBytes = 832 << 10;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

float element_at(const void* data, ElementType type, std::int64_t index) {
  if (type == ElementType::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint32_t word = static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[index]) << 16;
  return __builtin_bit_cast(float, word);
}

}  // namespace

WinogradRun::WinogradRun(const PackedLinear& product, const ConvWeights& shape, const ConvCall& call, int threads)
    : product_(product), kernel_(product.kernel_), shape_(shape), call_(call) {
  height_ = call.height + shape.padding[0] + shape.end_padding[0] - 2;
  width_ = call.width + shape.padding[1] + shape.end_padding[1] - 2;
  lines_ = (height_ + 1) / 2;
  tiles_across_ = (width_ + 1) / 2;
  tiles_ = call.batch * lines_ * tiles_across_;
  panels_ = (tiles_ + kernel_.rows - 1) / kernel_.rows;
  input_elements_ = shape.in_channels * kernel_.rows;
  const std::int64_t panel_bytes = kWinogradPlaces * input_elements_ * std::int64_t{sizeof(float)};
  plan_ = plan_product({panels_, product.panels_, static_cast<std::size_t>(panel_bytes / 4), threads, true});
  const std::int64_t most = std::max<std::int64_t>(plan_.row_block, 1);
  const std::int64_t fitting = std::clamp<std::int64_t>(kBlockBytes / panel_bytes, 1, most);
  const std::int64_t blocks = (most + fitting - 1) / fitting;
  block_ = (most + blocks - 1) / blocks;
  sums_offset_ = round_up(static_cast<std::size_t>(block_ * panel_bytes));
  const auto tile = static_cast<std::size_t>(kernel_.rows * kernel_.columns) * sizeof(float);
  zeros_offset_ = sums_offset_ + round_up(static_cast<std::size_t>(block_) * kWinogradPlaces * tile);
  worker_bytes_ = zeros_offset_ + round_up(static_cast<std::size_t>(shape.in_channels) * sizeof(float));
}

// U = G g Gᵀ with G = {1, 0, 0; ½, ½, ½; ½, -½, ½; 0, 0, 1}, in double.
void WinogradRun::transform_filters(const ConvWeights& weights, float* transformed) {
  const auto spread = [](double a, double b, double c, double (&four)[4]) {
    four[0] = a;
    four[1] = (a + b + c) / 2;
    four[2] = (a - b + c) / 2;
    four[3] = c;
  };
  for (std::int64_t out = 0; out < weights.out_channels; ++out) {
    for (std::int64_t c = 0; c < weights.in_channels; ++c) {
      const std::int64_t filter = (out * weights.in_channels + c) * 9;
      const auto weight = [&](int place) {
        return static_cast<double>(element_at(weights.data, weights.type, filter + place));
      };
      double columns[3][4];
      for (int x = 0; x < 3; ++x) spread(weight(x), weight(3 + x), weight(6 + x), columns[x]);
      for (int y = 0; y < 4; ++y) {
        double row[4];
        spread(columns[0][y], columns[1][y], columns[2][y], row);
        for (int x = 0; x < 4; ++x) {
          const std::int64_t place = out * kWinogradPlaces + std::int64_t{4} * y + x;
          transformed[place * weights.in_channels + c] = static_cast<float>(row[x]);
        }
      }
    }
  }
}

std::size_t WinogradRun::workspace_bytes(int threads) const {
  return worker_bytes_ * static_cast<std::size_t>(std::max(threads, 1));
}

void WinogradRun::run(void* workspace, const Parallel& parallel) {
  if (plan_.tasks() == 0) return;
  workspace_ = static_cast<std::byte*>(workspace);
  auto task = [this](std::int64_t index, int worker) { run_task(index, worker); };
  parallel.for_each(plan_.tasks(), task);
}

WinogradRun::Place WinogradRun::place_of(std::int64_t tile) const {
  const std::int64_t line = tile / tiles_across_;
  const std::int64_t image = line / lines_;
  return {image, line - image * lines_, tile - line * tiles_across_};
}

void WinogradRun::advance(Place& at) const {
  if (++at.across < tiles_across_) return;
  at.across = 0;
  if (++at.line < lines_) return;
  at.line = 0;
  ++at.image;
}

int WinogradRun::count_of(std::int64_t panel) const {
  return static_cast<int>(std::min<std::int64_t>(kernel_.rows, tiles_ - panel * kernel_.rows));
}
float* WinogradRun::input_of(const Block& block, std::int64_t panel) const {
  return reinterpret_cast<float*>(block.memory) + (panel - block.first) * kWinogradPlaces * input_elements_;
}
float* WinogradRun::sums_of(const Block& block, std::int64_t panel) const {
  return reinterpret_cast<float*>(block.memory + sums_offset_) +
         (panel - block.first) * kWinogradPlaces * kernel_.rows * kernel_.columns;
}

void WinogradRun::run_task(std::int64_t index, int worker) const {
  const std::int64_t first = index % plan_.row_blocks * plan_.row_block;
  const std::int64_t end = std::min(first + plan_.row_block, panels_);
  const std::int64_t first_column = index / plan_.row_blocks * plan_.column_block;
  const std::int64_t column_end = std::min(first_column + plan_.column_block, product_.panels_);
  Block block;
  block.memory = workspace_ + worker_bytes_ * static_cast<std::size_t>(worker);
  std::memset(block.memory + zeros_offset_, 0, static_cast<std::size_t>(shape_.in_channels) * sizeof(float));
  for (block.first = first; block.first < end; block.first += block_) {
    block.count = std::min(block_, end - block.first);
    transform_inputs(block);
    for (std::int64_t column = first_column; column < column_end; ++column) {
      multiply(block, column);
      transform_outputs(block, column);
    }
  }
}

void WinogradRun::transform_inputs(const Block& block) const {
  const auto pixel = static_cast<std::int64_t>(element_bytes(call_.input_type)) * shape_.in_channels;
  const auto* input = static_cast<const std::byte*>(call_.input);
  const std::byte* zeros = block.memory + zeros_offset_;
  WinogradInput tile;
  tile.type = call_.input_type;
  tile.channels = shape_.in_channels;
  tile.panel = input_elements_;
  tile.unit_step = std::int64_t{kernel_.rows} * kernel_.depth;
  for (std::int64_t panel = block.first; panel < block.first + block.count; ++panel) {
    const int count = count_of(panel);
    Place at = place_of(panel * kernel_.rows);
    for (int row = 0; row < count; ++row, advance(at)) {
      const std::int64_t left = at.across * 2 - shape_.padding[1];
      const std::int64_t top = at.line * 2 - shape_.padding[0];
      const std::int64_t first = (at.image * call_.height + top) * call_.width + left;
      const bool inside = top >= 0 && left >= 0 && top + 4 <= call_.height && left + 4 <= call_.width;
      for (int y = 0; y < 4; ++y) {
        const bool is_line = top + y >= 0 && top + y < call_.height;
        for (int x = 0; x < 4; ++x) {
          const bool is_pixel = inside || (is_line && left + x >= 0 && left + x < call_.width);
          tile.pixels[4 * y + x] = is_pixel ? input + (first + y * call_.width + x) * pixel : zeros;
        }
      }
      tile.target = input_of(block, panel) + std::int64_t{row} * kernel_.depth;
      kernel_.transform_input(tile);
    }
  }
}

// A place's filters stay in L1 for all panels, while those of the next place, which follow, come from memory.
void WinogradRun::multiply(const Block& block, std::int64_t column) const {
  const std::int64_t units = shape_.in_channels / kernel_.depth;
  const std::int64_t place_bytes = shape_.in_channels * kernel_.weight_bytes * kernel_.columns;
  const std::byte* weights = product_.weights_.get() + static_cast<std::size_t>(column) * product_.panel_bytes_;
  FinishedRows sums;
  sums.columns =
      static_cast<int>(std::min<std::int64_t>(kernel_.columns, product_.out_features_ - column * kernel_.columns));
  for (int place = 0; place < kWinogradPlaces; ++place, weights += place_bytes) {
    const bool is_last = place + 1 == kWinogradPlaces && column + 1 == product_.panels_;
    std::int64_t asked = is_last ? place_bytes : 0;
    for (std::int64_t panel = block.first; panel < block.first + block.count; ++panel) {
      const float* input = input_of(block, panel) + place * input_elements_;
      sums.tile = sums_of(block, panel) + std::int64_t{place} * kernel_.rows * kernel_.columns;
      sums.rows = count_of(panel);
      const std::byte* next = asked < place_bytes ? weights + place_bytes + asked : weights;
      kernel_.multiply_streamed(units, input, weights, sums, next, false, false);
      asked += units * kernel_.ahead_bytes;
    }
  }
}

void WinogradRun::transform_outputs(const Block& block, std::int64_t column) const {
  const std::int64_t first = column * kernel_.columns;
  WinogradOutput tile;
  tile.tile = std::int64_t{kernel_.rows} * kernel_.columns;
  tile.columns = std::min<std::int64_t>(kernel_.columns, product_.out_features_ - first);
  tile.bias = product_.bias_ == nullptr ? nullptr : product_.bias_ + first;
  tile.residual_type = call_.residual_type;
  tile.out_type = call_.output_type;
  tile.activation = call_.activation;
  const auto residual_bytes = static_cast<std::int64_t>(element_bytes(call_.residual_type));
  const auto out_bytes = static_cast<std::int64_t>(element_bytes(call_.output_type));
  for (std::int64_t panel = block.first; panel < block.first + block.count; ++panel) {
    const int count = count_of(panel);
    Place at = place_of(panel * kernel_.rows);
    for (int row = 0; row < count; ++row, advance(at)) {
      const std::int64_t corner = (at.image * height_ + at.line * 2) * width_ + at.across * 2;
      const bool has_right = at.across * 2 + 1 < width_;
      const bool has_lower = at.line * 2 + 1 < height_;
      for (int place = 0; place < 4; ++place) {
        const bool inside = (place % 2 == 0 || has_right) && (place < 2 || has_lower);
        const std::int64_t element = (corner + place / 2 * width_ + place % 2) * shape_.out_channels + first;
        tile.out[place] = inside ? static_cast<std::byte*>(call_.output) + element * out_bytes : nullptr;
        tile.residual[place] = call_.residual == nullptr || !inside
                                   ? nullptr
                                   : static_cast<const std::byte*>(call_.residual) + element * residual_bytes;
      }
      tile.sums = sums_of(block, panel) + std::int64_t{row} * kernel_.columns;
      kernel_.transform_output(tile);
    }
  }
}

}  // namespace kpt::kernels
