// The transforms of winograd.h. See vector_math.h for `Isa`, whose vectors have 16 elements.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/vector_math.h"
#include "kernels/cpu/winograd.h"

namespace kpt::kernels {

template <typename Isa>
struct Winograd {
  using Math = VectorMath<Isa>;
  using Floats = typename Math::Floats;
  static_assert(Isa::kWidth == kWinogradChannels);

  static void transform_input(const WinogradInput& tile) {
    if (tile.type == ElementType::kFloat32) return transform_pixels<float>(tile);
    transform_pixels<std::uint16_t>(tile);
  }

  static void transform_output(const WinogradOutput& tile) {
    switch (tile.activation) {
      case Activation::kNone: return write<Activation::kNone>(tile);
      case Activation::kRelu: return write<Activation::kRelu>(tile);
      case Activation::kGelu: return write<Activation::kGelu>(tile);
      case Activation::kGeluTanh: return write<Activation::kGeluTanh>(tile);
      case Activation::kSilu: return write<Activation::kSilu>(tile);
      case Activation::kSigmoid: return write<Activation::kSigmoid>(tile);
      case Activation::kTanh: return write<Activation::kTanh>(tile);
      case Activation::kHardswish: return write<Activation::kHardswish>(tile);
      case Activation::kHardsigmoid: return write<Activation::kHardsigmoid>(tile);
      case Activation::kRelu6: return write<Activation::kRelu6>(tile);
    }
  }

 private:
  static Floats load(const float* values) { return Math::load(values); }
  static Floats load(const std::uint16_t* halves) { return Math::load_bfloat16(halves); }
  static Floats load_as(ElementType type, const void* values, std::int64_t at) {
    if (type == ElementType::kFloat32) return load(static_cast<const float*>(values) + at);
    return load(static_cast<const std::uint16_t*>(values) + at);
  }

  // Two halves: a unit of A has eight channels.
  static void store_units(float* target, std::int64_t step, Floats value) {
    std::memcpy(target, &value, sizeof(value) / 2);
    std::memcpy(target + step, reinterpret_cast<const char*>(&value) + sizeof(value) / 2, sizeof(value) / 2);
  }

  struct Four {
    Floats a, b, c, d;
  };
  static Four spread(Floats a, Floats b, Floats c, Floats d) { return {a - c, b + c, c - b, b - d}; }  // times Bᵀ
  struct Two {
    Floats a, b;
  };
  static Two gather(Floats a, Floats b, Floats c, Floats d) { return {a + b + c, b - c - d}; }  // times Aᵀ

  template <typename Element>
  static void transform_pixels(const WinogradInput& given) {
    const WinogradInput tile = given;  // of our own: what is stored could be one of its pointers otherwise
    float* target = tile.target;
    for (std::int64_t c = 0; c < tile.channels; c += Isa::kWidth, target += 2 * tile.unit_step) {
      const auto column = [&](int x) {
        const auto pixel = [&](int y) { return load(static_cast<const Element*>(tile.pixels[4 * y + x]) + c); };
        return spread(pixel(0), pixel(1), pixel(2), pixel(3));
      };
      const auto store_row = [&](std::int64_t y, const Four& row) {
        float* place = target + 4 * y * tile.panel;
        store_units(place, tile.unit_step, row.a);
        store_units(place + tile.panel, tile.unit_step, row.b);
        store_units(place + 2 * tile.panel, tile.unit_step, row.c);
        store_units(place + 3 * tile.panel, tile.unit_step, row.d);
      };
      const Four first = column(0);
      const Four second = column(1);
      const Four third = column(2);
      const Four fourth = column(3);
      store_row(0, spread(first.a, second.a, third.a, fourth.a));
      store_row(1, spread(first.b, second.b, third.b, fourth.b));
      store_row(2, spread(first.c, second.c, third.c, fourth.c));
      store_row(3, spread(first.d, second.d, third.d, fourth.d));
    }
  }

  template <Activation kKind>
  static void write(const WinogradOutput& given) {
    const WinogradOutput tile = given;
    for (std::int64_t c = 0; c < tile.columns; c += Isa::kWidth) {
      const auto column = [&](int x) {
        const auto sum = [&](std::int64_t y) { return Math::load(tile.sums + (4 * y + x) * tile.tile + c); };
        return gather(sum(0), sum(1), sum(2), sum(3));
      };
      const Two first = column(0);
      const Two second = column(1);
      const Two third = column(2);
      const Two fourth = column(3);
      const Two upper = gather(first.a, second.a, third.a, fourth.a);
      const Two lower = gather(first.b, second.b, third.b, fourth.b);
      put<kKind>(tile, 0, c, upper.a);
      put<kKind>(tile, 1, c, upper.b);
      put<kKind>(tile, 2, c, lower.a);
      put<kKind>(tile, 3, c, lower.b);
    }
  }

  template <Activation kKind>
  static void put(const WinogradOutput& tile, int place, std::int64_t column, Floats x) {
    if (tile.out[place] == nullptr) return;
    if (tile.bias != nullptr) x += Math::load(tile.bias + column);
    if (tile.residual[place] != nullptr) x += load_as(tile.residual_type, tile.residual[place], column);
    x = Math::template activate<kKind>(x);
    if (tile.out_type == ElementType::kFloat32) return Math::store(static_cast<float*>(tile.out[place]) + column, x);
    Math::store_bfloat16(static_cast<std::uint16_t*>(tile.out[place]) + column, x);
  }
};

}  // namespace kpt::kernels
