// Linear layers: forward, and the gradients of active features. Contracts: edgefl/kernels/table.py.
#pragma once
#include "channel_sum.cuh"
#include "product.cuh"

namespace linear {

using namespace product;

// out = left * right: blocks (x, y) are tiles of 64 columns and of rows, z a part of the terms. Where there are
// several parts out holds one product after another, which linear_sum adds.
struct Part {
    int row, column, first, last;  // of this block; its terms
};

EFL_DEVICE Part part_of(const ProductArgs& a, int rows) {
    const int first = int(blockIdx.z) * int(a.part);
    const int last = smaller(first + int(a.part), int(a.terms.count));
    return {int(blockIdx.y) * rows, int(blockIdx.x) * TILE_COLUMNS, first, last};
}

// The columns of out that this thread's sums belong to, or -1, and their biases.
template <class Tile>
struct Positions {
    int columns[Tile::WIDE];
    float biases[Tile::WIDE];
};

template <class Tile>
EFL_DEVICE Positions<Tile> positions_of(const ProductArgs& a, int first) {
    Positions<Tile> positions;
    EFL_UNROLL
    for (int n = 0; n < Tile::WIDE; ++n) {
        const int column = first + Tile::column(n);
        const bool is_inside = column < a.columns.count;
        positions.columns[n] = is_inside ? id_at(a.placed, column) : -1;
        positions.biases[n] = is_inside && a.bias ? a.bias[column] : 0.0f;
    }
    return positions;
}

// Writes each sum as `change(value at its position, sum, bias)` says; to_row: of out, for a row.
template <class Tile, class Row, class Change>
EFL_DEVICE void put(const ProductArgs& a, const Part& part, const Sums<Tile>& sums, Row to_row, Change change) {
    float* const out = a.out + Size(blockIdx.z) * a.rows.count * a.out_pitch;
    const Positions<Tile> positions = positions_of<Tile>(a, part.column);
    EFL_UNROLL
    for (int m = 0; m < Tile::TALL; ++m) {
        const int row = part.row + Tile::row(m);
        if (row >= a.rows.count) break;
        float* const to = out + to_row(row) * a.out_pitch;
        EFL_UNROLL
        for (int n = 0; n < Tile::WIDE; ++n)
            if (positions.columns[n] >= 0) change(to[positions.columns[n]], sums.of[m][n], positions.biases[n]);
    }
}

template <class Tile>
EFL_DEVICE void put(const ProductArgs& a, const Part& part, const Sums<Tile>& sums) {
    put<Tile>(
        a, part, sums, [](int row) { return Size(row); },
        [](float& value, float sum, float bias) { value = sum + bias; });
}

// As SgdStep (csrc/kernels/update.inl.h) moves a weight without momentum; without hyper, dw: what moves 0 at the rate
// -1, for half the code.
template <class Tile>
EFL_DEVICE void put_or_step(const ProductArgs& a, const Part& part, const Sums<Tile>& sums) {
    const bool steps = a.hyper;
    const float lr = steps ? a.hyper[0] : -1.0f, decay = steps ? a.hyper[2] : 0.0f;
    put<Tile>(
        a, part, sums, [&](int row) { return Size(steps ? id_at(a.rows, row) : row); },
        [&](float& value, float grad, float) {
            const float w = steps ? value : 0.0f;
            value = w - lr * (grad + decay * w);
        });
}

// Terms that no list chooses, which is then known where code is made.
EFL_DEVICE Ids every_term(const ProductArgs& a) { return {nullptr, a.terms.count}; }

template <class Tile>
EFL_DEVICE AlongTerms<Tile::ROWS, Tile::TERMS> rows_of_left(const ProductArgs& a, const Ids& terms, const Part& part) {
    return {a.left, terms, int(a.left_pitch), part.row, int(a.rows.count), {}};
}

template <class Tile>
EFL_DEVICE AcrossTerms<TILE_COLUMNS, Tile::TERMS> columns_of_right(const ProductArgs& a, const Ids& terms,
                                                                   const Part& part) {
    return across<TILE_COLUMNS, Tile::TERMS>(a.right, terms, a.right_pitch, a.columns, part.column);
}

// y = x weight^T
template <class Tile>
EFL_DEVICE void forward(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    const Ids terms = every_term(a);
    const int columns = int(a.columns.count), pitch = int(a.right_pitch);
    auto left = rows_of_left<Tile>(a, terms, part);
    AlongTerms<TILE_COLUMNS, Tile::TERMS> right{a.right, terms, pitch, part.column, columns, {}};
    put<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

// dx = dy weight
template <class Tile>
EFL_DEVICE void grad_input(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    auto left = rows_of_left<Tile>(a, a.terms, part);
    auto right = columns_of_right<Tile>(a, a.terms, part);
    put<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

// dw = dy^T x
template <class Tile>
EFL_DEVICE void grad_weight(const ProductArgs& a, ProductMemory<Tile>& memory) {
    const Part part = part_of(a, Tile::ROWS);
    const Ids terms = every_term(a);
    auto left = across<Tile::ROWS, Tile::TERMS>(a.left, terms, a.left_pitch, a.rows, part.row);
    auto right = columns_of_right<Tile>(a, terms, part);
    put_or_step<Tile>(a, part, summed<Tile>(memory, left, right, part.first, part.last));
}

EFL_KERNEL(linear_forward_wide, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<WideTile> memory;
    forward(a, memory);
}

EFL_KERNEL(linear_forward_narrow, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    forward(a, memory);
}

EFL_KERNEL(linear_grad_input_wide, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<WideTile> memory;
    grad_input(a, memory);
}

EFL_KERNEL(linear_grad_input_narrow, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    grad_input(a, memory);
}

EFL_KERNEL(linear_grad_weight_wide, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<WideTile> memory;
    grad_weight(a, memory);
}

EFL_KERNEL(linear_grad_weight_narrow, PRODUCT_THREADS) {
    EFL_SHARED ProductMemory<NarrowTile> memory;
    grad_weight(a, memory);
}

EFL_KERNEL(linear_sum, 256) {
    const int columns = int(a.columns.count);
    const Size values = a.rows * columns;
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < values; i += threads_of_grid()) {
        const int row = int(i) / columns, column = int(i) % columns;
        float sum = 0;
        for (Size part = 0; part < a.count; ++part) sum += a.parts[part * values + i];
        a.out[row * a.pitch + id_at(a.columns, column)] = a.bias ? sum + a.bias[column] : sum;
    }
}

}  // namespace linear
