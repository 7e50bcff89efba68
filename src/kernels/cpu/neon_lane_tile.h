// A whole tile of 8 × 12 sums by products with one lane of the input: sums in v0 to v23, weights in v24 to v26, inputs
// in v27 and v28. In assembly, because the order of loads and products decides: with the order that compilers choose,
// Neoverse-V1 keeps only two of its four pipes busy.
#pragma once

// One row of the tile: three products with lane `lane` of register `input`.
#define KPT_NEON_LANE_ROW(operation, weight_type, lane_type, first, second, third, input, lane)                   \
  operation " v" #first ".4s, v24." weight_type ", v" #input "." lane_type "[" #lane "]\n" operation " v" #second \
            ".4s, v25." weight_type ", v" #input "." lane_type "[" #lane "]\n" operation " v" #third              \
            ".4s, v26." weight_type ", v" #input "." lane_type "[" #lane "]\n"
#define KPT_NEON_PAIR_OF_SUMS(instruction, first, second, offset) \
  #instruction " q" #first ", q" #second ", [%[sums], #" #offset "]\n"
#define KPT_NEON_ALL_SUMS(instruction)            \
  KPT_NEON_PAIR_OF_SUMS(instruction, 0, 1, 0)     \
  KPT_NEON_PAIR_OF_SUMS(instruction, 2, 3, 32)    \
  KPT_NEON_PAIR_OF_SUMS(instruction, 4, 5, 64)    \
  KPT_NEON_PAIR_OF_SUMS(instruction, 6, 7, 96)    \
  KPT_NEON_PAIR_OF_SUMS(instruction, 8, 9, 128)   \
  KPT_NEON_PAIR_OF_SUMS(instruction, 10, 11, 160) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 12, 13, 192) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 14, 15, 224) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 16, 17, 256) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 18, 19, 288) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 20, 21, 320) \
  KPT_NEON_PAIR_OF_SUMS(instruction, 22, 23, 352)

// tile += products over `units` (above zero) units of 48 bytes of weights and 32 bytes of input. The first three are
// variables that it changes.
#define KPT_NEON_LANE_TILE(operation, weight_type, lane_type, units, input, weights, tile) \
  __asm__ volatile(                                                                                                     \
      KPT_NEON_ALL_SUMS(ldp) "1:\n"                                                                                     \
                             "ldp q24, q25, [%[columns]], #48\n"                                                        \
                             "ldur q26, [%[columns], #-16]\n"                                                           \
                             "ldr q27, [%[rows]], #32\n"                                                                \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 0, 1, 2, 27, 0)                                              \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 3, 4, 5, 27, 1)                                              \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 6, 7, 8, 27, 2)                                              \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 9, 10, 11, 27, 3) "ldur q28, [%[rows], #-16]\n"             \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 12, 13, 14, 28, 0)                                           \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 15, 16, 17, 28, 1)                                           \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 18, 19, 20, 28, 2)                                           \
      KPT_NEON_LANE_ROW(operation, weight_type, lane_type, 21, 22, 23, 28, 3) "subs %[count], %[count], #1\n"          \
      "b.ne 1b\n" KPT_NEON_ALL_SUMS(stp)                                                                               \
      : [count] "+r"(units), [rows] "+r"(input), [columns] "+r"(weights)                                                \
      : [sums] "r"(tile)                                                                                                \
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",  \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28")
