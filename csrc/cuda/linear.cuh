// Linear layers: forward, and the gradients of active features. Contracts: csrc/edgefl.h.
#pragma once
#include "channel_sum.cuh"
#include "matrix_product.cuh"

namespace linear {

using namespace matrix;

// out = left * right: blocks (x, y) are tiles of 64 columns and of rows, z a part of the terms. Where there are several
// parts out holds one product after another, which linear_sum adds.
struct ProductArgs {
    const float *left, *right;
    float* out;
    const float* bias;   // of columns, or null
    const float* hyper;  // or null; else out is w, of which `rows` and `placed` take a step of plain SGD
    Ids rows, terms, columns;
    Ids placed;  // columns of out
    Size left_pitch, right_pitch, out_pitch;
    Size part;  // terms of one
};

struct Part {
    int row, column, first, last;  // of this block; its terms
};

EFL_DEVICE Part part_of(const ProductArgs& a, int rows) {
    const int first = int(blockIdx.z) * int(a.part);
    const int last = smaller(first + int(a.part), int(a.terms.count));
    return {int(blockIdx.y) * rows, int(blockIdx.x) * TILE_COLUMNS, first, last};
}

// As SgdStep (csrc/kernels/update.inl.h) moves a weight without momentum.
EFL_DEVICE float moved(float w, float grad, const float* hyper) { return w - hyper[0] * (grad + hyper[2] * w); }

template <class Tile>
EFL_DEVICE void put(const ProductArgs& a, const Part& part, const Sums<Tile>& sums) {
    constexpr int ROWS = Sums<Tile>::ROWS;
    float* const out = a.out + Size(blockIdx.z) * a.rows.count * a.out_pitch;
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        const int row = part.row + row_of_thread(ROWS) + m;
        if (row >= a.rows.count) break;
        float* const to = out + Size(a.hyper ? id_at(a.rows, row) : row) * a.out_pitch;
        EFL_UNROLL
        for (int n = 0; n < THREAD_COLUMNS; ++n) {
            const int column = part.column + column_of_thread() + n * COLUMN_THREADS;
            if (column >= a.columns.count) break;
            float& place = to[id_at(a.placed, column)];
            const float sum = sums.of[m][n];
            place = a.hyper ? moved(place, sum, a.hyper) : a.bias ? sum + a.bias[column] : sum;
        }
    }
}

// y = x weight^T
template <class Tile>
EFL_DEVICE void forward(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    AlongTerms<Tile::ROWS, Tile::TERMS> left{a.left, a.terms, int(a.left_pitch), part.row, int(a.rows.count), {}};
    AlongTerms<TILE_COLUMNS, Tile::TERMS> right{a.right, a.terms, int(a.right_pitch), part.column, int(a.columns.count), {}};
    put<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

// dx = dy weight
template <class Tile>
EFL_DEVICE void grad_input(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    AlongTerms<Tile::ROWS, Tile::TERMS> left{a.left, a.terms, int(a.left_pitch), part.row, int(a.rows.count), {}};
    auto right = across<TILE_COLUMNS, Tile::TERMS>(a.right, a.terms, a.right_pitch, a.columns, part.column);
    put<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

// dw = dy^T x
template <class Tile>
EFL_DEVICE void grad_weight(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    auto left = across<Tile::ROWS, Tile::TERMS>(a.left, a.terms, a.left_pitch, a.rows, part.row);
    auto right = across<TILE_COLUMNS, Tile::TERMS>(a.right, a.terms, a.right_pitch, a.columns, part.column);
    put<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

EFL_KERNEL(linear_forward_wide, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<WideTile> memory;
    forward(a, memory);
}

EFL_KERNEL(linear_forward_narrow, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    forward(a, memory);
}

EFL_KERNEL(linear_grad_input_wide, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<WideTile> memory;
    grad_input(a, memory);
}

EFL_KERNEL(linear_grad_input_narrow, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    grad_input(a, memory);
}

EFL_KERNEL(linear_grad_weight_wide, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<WideTile> memory;
    grad_weight(a, memory);
}

EFL_KERNEL(linear_grad_weight_narrow, PRODUCT_THREADS, ProductArgs) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    grad_weight(a, memory);
}

struct LinearSumArgs {
    const float* parts;  // [count, rows, columns]
    float* out;
    const float* bias;  // or null
    Size count, rows;
    Ids columns;  // of out
    Size pitch;
};

EFL_KERNEL(linear_sum, 256, LinearSumArgs) {
    const int columns = int(a.columns.count);
    const Size values = a.rows * columns;
    for (Size i = thread_of_grid(); i < values; i += threads_of_grid()) {
        const int row = int(i) / columns, column = int(i) % columns;
        float sum = 0;
        for (Size part = 0; part < a.count; ++part) sum += a.parts[part * values + i];
        a.out[row * a.pitch + id_at(a.columns, column)] = a.bias ? sum + a.bias[column] : sum;
    }
}

}  // namespace linear
