// The last step of a product and the packing of its input, for every instruction set. See vector_math.h for `Isa`.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/matrix_kernel.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels {

// Isa::kColumns: columns of a tile, a multiple of Isa::kWidth.
template <typename Isa, typename Sum>
struct Finish {
  using Math = VectorMath<Isa>;
  using Floats = typename Math::Floats;
  static constexpr int kWidth = Isa::kWidth;
  static constexpr int kColumns = Isa::kColumns;
  static constexpr bool kIsInt = std::is_same_v<Sum, std::int32_t>;

  static void run(const FinishedRows& rows) {
    switch (rows.activation) {
      case Activation::kNone: return all_rows<Activation::kNone>(rows);
      case Activation::kRelu: return all_rows<Activation::kRelu>(rows);
      case Activation::kGelu: return all_rows<Activation::kGelu>(rows);
      case Activation::kGeluTanh: return all_rows<Activation::kGeluTanh>(rows);
      case Activation::kSilu: return all_rows<Activation::kSilu>(rows);
      case Activation::kSigmoid: return all_rows<Activation::kSigmoid>(rows);
      case Activation::kTanh: return all_rows<Activation::kTanh>(rows);
      case Activation::kHardswish: return all_rows<Activation::kHardswish>(rows);
      case Activation::kHardsigmoid: return all_rows<Activation::kHardsigmoid>(rows);
      case Activation::kRelu6: return all_rows<Activation::kRelu6>(rows);
    }
  }

 private:
  template <Activation kKind>
  static void all_rows(const FinishedRows& rows) {
    if constexpr (kKind == Activation::kNone || kKind == Activation::kRelu || kKind == Activation::kRelu6) {
      return store_rows<kKind>(rows);
    } else {
      // In turn: the sums to floats in place, the function over the whole tile with its constants in registers (a third
      // of the time it takes between branches), the results to their rows.
      FinishedRows values = rows;
      values.out = rows.tile;
      values.out_stride = kColumns;
      values.out_type = ElementType::kFloat32;
      store_rows<Activation::kNone>(values);
      auto* tile = static_cast<float*>(rows.tile);
      const std::int64_t count = rows.rows * kColumns;
      std::int64_t i = 0;
      constexpr std::int64_t kStep = std::int64_t{2} * kWidth;
      for (; i + kStep <= count; i += kStep) {
        const Floats first = Math::template activate<kKind>(Math::load(tile + i));
        const Floats second = Math::template activate<kKind>(Math::load(tile + i + kWidth));
        Math::store(tile + i, first);
        Math::store(tile + i + kWidth, second);
      }
      for (; i < count; i += kWidth) Math::store(tile + i, Math::template activate<kKind>(Math::load(tile + i)));
      copy_rows(rows);
    }
  }

  // Rows of whole vectors of float, the usual case. Inlined, so that a constant number of parts unrolls the loop.
  template <Activation kKind, bool kBias, bool kResidual>
  [[gnu::always_inline]] static inline void store_vectors(const FinishedRows& rows, std::size_t parts) {
    const Sum* tile = static_cast<const Sum*>(rows.tile);
    const auto* residual = static_cast<const float*>(rows.residual);
    auto* out = static_cast<float*>(rows.out);
    for (std::int64_t row = 0; row < rows.rows; ++row, tile += kColumns, out += rows.out_stride) {
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t column = part * kWidth;
        Floats x;
        if constexpr (kIsInt) {
          x = Math::from_ints(sums_at(rows, tile + column, static_cast<int>(column))) *
              (Math::load(rows.column_scale + column) * rows.row_scale[row]);
        } else {
          x = Math::load(tile + column);
        }
        if constexpr (kBias) x += Math::load(rows.bias + column);
        if constexpr (kResidual) x += Math::load(residual + column);
        Math::store(out + column, Math::template activate<kKind>(x));
      }
      if constexpr (kResidual) residual += rows.residual_stride;
    }
  }

  template <Activation kKind, bool kBias, bool kResidual>
  static void store_whole_rows(const FinishedRows& rows) {
    constexpr std::size_t kParts = kColumns / kWidth;
    if (rows.columns == kColumns) return store_vectors<kKind, kBias, kResidual>(rows, kParts);
    store_vectors<kKind, kBias, kResidual>(rows, static_cast<std::size_t>(rows.columns / kWidth));
  }

  template <Activation kKind>
  static void store_rows(const FinishedRows& rows) {
    const bool plain = rows.residual == nullptr || rows.residual_type == ElementType::kFloat32;
    if (plain && rows.columns % kWidth == 0 && rows.out_type == ElementType::kFloat32) {
      const bool residual = rows.residual != nullptr;
      if (rows.bias != nullptr) {
        return residual ? store_whole_rows<kKind, true, true>(rows) : store_whole_rows<kKind, true, false>(rows);
      }
      return residual ? store_whole_rows<kKind, false, true>(rows) : store_whole_rows<kKind, false, false>(rows);
    }
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      int column = 0;
      for (; column + kWidth <= rows.columns; column += kWidth) {
        const char* residual = residual_at(rows, row, column);
        put(rows.out_type, out_at(rows, row, column), value<kKind>(rows, row, column, residual));
      }
      if (column < rows.columns) last_columns<kKind>(rows, row, column);
    }
  }

  static void copy_rows(const FinishedRows& rows) {
    const auto* tile = static_cast<const float*>(rows.tile);
    for (std::int64_t row = 0; row < rows.rows; ++row, tile += kColumns) {
      int column = 0;
      for (; column + kWidth <= rows.columns; column += kWidth) {
        put(rows.out_type, out_at(rows, row, column), Math::load(tile + column));
      }
      if (column == rows.columns) continue;
      char result[sizeof(Floats)];
      put(rows.out_type, result, Math::load(tile + column));
      std::memcpy(out_at(rows, row, column), result,
                  static_cast<std::size_t>(rows.columns - column) * element_bytes(rows.out_type));
    }
  }

  // The columns that fill no vector go through memory of their own, so that nothing beyond the row is touched.
  template <Activation kKind>
  static void last_columns(const FinishedRows& rows, std::int64_t row, int column) {
    const auto count = static_cast<std::size_t>(rows.columns - column);
    char residual_copy[sizeof(Floats)] = {};
    const char* residual = residual_at(rows, row, column);
    if (residual != nullptr) {
      std::memcpy(residual_copy, residual, count * element_bytes(rows.residual_type));
      residual = residual_copy;
    }
    char result[sizeof(Floats)];
    put(rows.out_type, result, value<kKind>(rows, row, column, residual));
    std::memcpy(out_at(rows, row, column), result, count * element_bytes(rows.out_type));
  }

  template <Activation kKind>
  static Floats value(const FinishedRows& rows, std::int64_t row, int column, const char* residual) {
    const Sum* tile = static_cast<const Sum*>(rows.tile) + row * kColumns + column;
    Floats x;
    if constexpr (kIsInt) {
      const auto scale = Math::load(rows.column_scale + column) * rows.row_scale[row];
      x = Math::from_ints(sums_at(rows, tile, column)) * scale;
    } else {
      x = Math::load(tile);
    }
    if (rows.bias != nullptr) x += Math::load(rows.bias + column);
    if (residual != nullptr) x += get(rows.residual_type, residual);
    return Math::template activate<kKind>(x);
  }

  static typename Math::Ints sums_at(const FinishedRows& rows, const std::int32_t* tile, int column) {
    const auto sums = Math::load(tile);
    if (rows.column_offset == nullptr) return sums;
    return Math::wrapping_sum(sums, Math::load(rows.column_offset + column));
  }
  static const char* residual_at(const FinishedRows& rows, std::int64_t row, int column) {
    if (rows.residual == nullptr) return nullptr;
    const auto offset = static_cast<std::ptrdiff_t>(element_bytes(rows.residual_type));
    return static_cast<const char*>(rows.residual) + (row * rows.residual_stride + column) * offset;
  }
  static char* out_at(const FinishedRows& rows, std::int64_t row, int column) {
    const auto offset = static_cast<std::ptrdiff_t>(element_bytes(rows.out_type));
    return static_cast<char*>(rows.out) + (row * rows.out_stride + column) * offset;
  }
  static Floats get(ElementType type, const char* source) {
    if (type == ElementType::kFloat32) return Math::load(reinterpret_cast<const float*>(source));
    return Math::load_bfloat16(reinterpret_cast<const std::uint16_t*>(source));
  }
  static void put(ElementType type, char* target, Floats value) {
    if (type == ElementType::kFloat32) return Math::store(reinterpret_cast<float*>(target), value);
    Math::store_bfloat16(reinterpret_cast<std::uint16_t*>(target), value);
  }
};

}  // namespace kpt::kernels
