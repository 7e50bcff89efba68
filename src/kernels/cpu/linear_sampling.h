// Random products for tests: weights, inputs and the fp64 result with a bound of what rounding may do to it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/packed_linear.h"

namespace kpt::kernels {

inline std::uint16_t sample_to_bfloat16(float value) {
  std::uint32_t word = 0;
  std::memcpy(&word, &value, 4);
  return static_cast<std::uint16_t>((word + 0x7FFFU + ((word >> 16) & 1U)) >> 16);
}
inline float sample_from_bfloat16(std::uint16_t half) {
  const std::uint32_t word = static_cast<std::uint32_t>(half) << 16;
  float value = 0;
  std::memcpy(&value, &word, 4);
  return value;
}

// Threads of its own per call, all of them at once: what a data race needs.
inline Parallel threads_for_test(int threads) {
  Parallel parallel;
  parallel.threads = threads;
  static constexpr int kCounts[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  parallel.pool = const_cast<int*>(&kCounts[threads]);  // at most 8
  parallel.run = [](void* pool, std::int64_t tasks, Parallel::Task task, void* context) {
    const int count = *static_cast<const int*>(pool);
    std::vector<std::thread> workers;
    for (int worker = 0; worker < count; ++worker) {
      workers.emplace_back([=] {
        for (std::int64_t index = worker; index < tasks; index += count) task(context, index, worker);
      });
    }
    for (std::thread& worker : workers) worker.join();
  };
  return parallel;
}

// Elements of one type with their values in double.
struct SampledMatrix {
  ElementType type = ElementType::kFloat32;
  std::vector<float> floats;
  std::vector<std::uint16_t> halves;

  SampledMatrix() = default;
  SampledMatrix(std::mt19937& random, std::size_t count, ElementType of) : type(of) {
    std::normal_distribution<float> normal;
    floats.resize(count);
    for (float& value : floats) value = normal(random);
    if (type == ElementType::kBfloat16) {
      for (float& value : floats) {
        halves.push_back(sample_to_bfloat16(value));
        value = sample_from_bfloat16(halves.back());
      }
    }
  }
  const void* data() const {
    return type == ElementType::kFloat32 ? static_cast<const void*>(floats.data()) : halves.data();
  }
  double at(std::int64_t index) const { return static_cast<double>(floats[static_cast<std::size_t>(index)]); }
};

// W with its values as the product must see them.
struct SampledWeights {
  LinearWeights weights;
  SampledMatrix matrix;
  SampledMatrix bias;
  std::vector<std::int8_t> int8;
  std::vector<std::uint8_t> int4;
  std::vector<float> scale;
  std::vector<double> values;  // [N, K]

  SampledWeights(std::mt19937& random, LinearForm form, std::int64_t n, std::int64_t k, ElementType type,
                 bool with_bias) {
    weights.form = form;
    weights.type = type;
    weights.rows = n;
    weights.columns = k;
    weights.row_stride = k + 3;
    const auto count = static_cast<std::size_t>(n * weights.row_stride);
    if (form == LinearForm::kInt8 || form == LinearForm::kWeightInt8) {
      fill_int8(random, count);
    } else if (form == LinearForm::kInt4) {
      fill_int4(random);
    } else {
      matrix = SampledMatrix(random, count, type);
      weights.data = matrix.data();
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t i = 0; i < k; ++i) {
          const auto value = static_cast<float>(matrix.at(row * weights.row_stride + i));
          const bool round = form == LinearForm::kBfloat16;
          values.push_back(static_cast<double>(round ? sample_from_bfloat16(sample_to_bfloat16(value)) : value));
        }
      }
    }
    if (with_bias) {
      bias = SampledMatrix(random, static_cast<std::size_t>(n), type);
      weights.bias = bias.data();
      weights.bias_type = type;
    }
  }

 private:
  void fill_int8(std::mt19937& random, std::size_t count) {
    std::uniform_int_distribution<int> codes(-128, 127);
    std::uniform_real_distribution<float> scales(0.001F, 0.02F);
    int8.resize(count);
    for (std::int8_t& code : int8) code = static_cast<std::int8_t>(codes(random));
    for (std::int64_t row = 0; row < weights.rows; ++row) {
      scale.push_back(scales(random));
      for (std::int64_t i = 0; i < weights.columns; ++i) {
        values.push_back(static_cast<double>(int8[static_cast<std::size_t>(row * weights.row_stride + i)]) *
                         static_cast<double>(scale.back()));
      }
    }
    weights.data = int8.data();
    weights.scale = scale.data();
  }
  void fill_int4(std::mt19937& random) {
    std::uniform_int_distribution<int> bytes(0, 255);
    std::uniform_real_distribution<float> scales(0.01F, 0.2F);
    weights.row_stride = weights.columns / 2 + 1;
    int4.resize(static_cast<std::size_t>(weights.rows * weights.row_stride));
    for (std::uint8_t& byte : int4) byte = static_cast<std::uint8_t>(bytes(random));
    const std::int64_t half = weights.columns / 2;
    weights.group = weights.columns % 32 == 0 && weights.columns > 0 ? 32 : half % 2 == 1 ? half : weights.columns;
    if (weights.group == 0) weights.group = 1;
    const std::int64_t groups = weights.columns / weights.group;
    for (std::int64_t i = 0; i < weights.rows * groups; ++i) scale.push_back(scales(random));
    for (std::int64_t row = 0; row < weights.rows; ++row) {
      for (std::int64_t i = 0; i < weights.columns; ++i) {
        const int byte = int4[static_cast<std::size_t>(row * weights.row_stride + i / 2)];
        const int code = (i % 2 == 0 ? byte & 15 : byte >> 4) - 8;
        const float value =
            static_cast<float>(code) * scale[static_cast<std::size_t>(row * groups + i / weights.group)];
        values.push_back(static_cast<double>(value));
      }
    }
    weights.data = int4.data();
    weights.scale = scale.data();
  }
};

// The greatest error that a sum of K products in float may have, all roundings against us, over Σ|a||w|.
inline double float_sum_error(std::int64_t depth) { return static_cast<double>(depth + 8) * 0x1p-23; }

}  // namespace kpt::kernels
