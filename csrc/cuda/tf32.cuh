// The TF32 forms of the products of convolution.cuh and linear.cuh: of each kernel one with _tf32 behind its name,
// which takes the same arguments, grid and threads (edgefl/kernels/cuda/tf32.py). What is fetched, and where sums go,
// is theirs; the tiles' products are tf32_product.cuh's.
#pragma once
#include "convolution.cuh"
#include "linear.cuh"
#include "tf32_product.cuh"

#ifdef EFL_HAS_TF32

namespace tf32 {

// A tile of gathered_product.cuh.
template <int ROWS_, int COLUMNS_, int DEPTH_, int TALL, int WIDE, int DOWN>
struct Gathered : Warp<ROWS_, TALL, WIDE, DOWN, 4, 2> {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_, THREADS = ROWS * COLUMNS / (TALL * WIDE);
    static constexpr int LEFT_PITCH = gathered::PITCH<ROWS>, RIGHT_PITCH = gathered::PITCH<COLUMNS>;

    EFL_DEVICE void add_products(const float (&left)[DEPTH][LEFT_PITCH], const float (&right)[DEPTH][RIGHT_PITCH],
                                 float (&sum)[TALL][WIDE]) {
        Gathered::template add<DEPTH, LEFT_PITCH, RIGHT_PITCH>(left[0], right[0], sum);
    }
};

// Twice as deep as fp32's where those are 8: a step takes a fraction of the time, the way from memory does not.
using Huge = Gathered<128, 128, 16, 4, 16, 4>;
using Long = Gathered<64, 128, 16, 4, 16, 4>;
using Square = Gathered<64, 64, 16, 4, 8, 4>;
using Flat = Gathered<32, 64, 16, 2, 8, 1>;

// A tile of product.cuh.
template <int ROWS_, int TERMS_, int TALL, int WIDE>
struct Plain : Warp<ROWS_, TALL, WIDE, 1, 1, TERMS_ / 4> {
    static constexpr int ROWS = ROWS_, TERMS = TERMS_;
    static constexpr int LEFT_PITCH = ROWS + 32 / TERMS, RIGHT_PITCH = product::TILE_COLUMNS + 32 / TERMS;

    EFL_DEVICE void add_products(const float* left, const float* right, float (&sum)[TALL][WIDE]) {
        Plain::template add<TERMS, LEFT_PITCH, RIGHT_PITCH>(left, right, sum);
    }
};

using WideTile = Plain<64, 16, 4, 8>;
using NarrowTile = Plain<16, 32, 2, 4>;

}  // namespace tf32

EFL_CONVOLUTION(huge_tf32, tf32::Huge, 2)
EFL_CONVOLUTION(long_tf32, tf32::Long, 3)
EFL_CONVOLUTION(square_tf32, tf32::Square, 4)
EFL_CONVOLUTION(flat_tf32, tf32::Flat, 4)

// what: forward, grad_input or grad_weight
#define EFL_LINEAR(what, size, Tile)                                      \
    EFL_KERNEL(linear_##what##_##size##_tf32, product::PRODUCT_THREADS) { \
        EFL_SHARED product::ProductMemory<Tile> memory;                   \
        linear::what(a, memory);                                          \
    }

EFL_LINEAR(forward, wide, tf32::WideTile)
EFL_LINEAR(forward, narrow, tf32::NarrowTile)
EFL_LINEAR(grad_input, wide, tf32::WideTile)
EFL_LINEAR(grad_input, narrow, tf32::NarrowTile)
EFL_LINEAR(grad_weight, wide, tf32::WideTile)
EFL_LINEAR(grad_weight, narrow, tf32::NarrowTile)

#endif
