// Channels side by side, planes with room around them, repeated cells, axes exchanged, and rows of a table. Contracts:
// csrc/edgefl.h.
#pragma once
#include "places.cuh"
#include "transpose.cuh"

EFL_KERNEL(copy_rows, 256) {
    each_position(a.rows * a.width, [&](int i) {
        const unsigned row = unsigned(i) / unsigned(a.width), at = unsigned(i) % unsigned(a.width);
        a.to[row * unsigned(a.to_step) + at] = a.source[row * unsigned(a.source_step) + at];
    });
}

// Planes [planes, height, width] inside larger ones [planes, out_height, out_width].
struct Cell {
    int plane, row, col;
};

EFL_DEVICE Cell cell_of(int i, Size height, Size width) {
    const unsigned rows = unsigned(height), cols = unsigned(width), line = unsigned(i) / cols;
    return {int(line / rows), int(line % rows), int(unsigned(i) % cols)};
}

EFL_KERNEL(pad_planes, 256) {
    const int height = int(a.height), width = int(a.width), top = int(a.top), left = int(a.left);
    each_position(a.planes * a.out_height * a.out_width, [&](int i) {
        const Cell to = cell_of(i, a.out_height, a.out_width);
        const int row = to.row - top, col = to.col - left;
        const bool is_inside = row >= 0 && row < height && col >= 0 && col < width;
        a.to[i] = is_inside ? a.source[(to.plane * height + row) * width + col] : 0.0f;
    });
}

EFL_KERNEL(crop_planes, 256) {
    const int out_height = int(a.out_height), out_width = int(a.out_width), top = int(a.top), left = int(a.left);
    each_position(a.planes * a.height * a.width, [&](int i) {
        const Cell to = cell_of(i, a.height, a.width);
        a.to[i] = a.source[(to.plane * out_height + top + to.row) * out_width + left + to.col];
    });
}

// Planes [planes, height, width] whose cells are repeated.
EFL_KERNEL(upsample_forward, 256) {
    const int height = int(a.height), width = int(a.width);
    const unsigned scale_h = unsigned(a.scale_h), scale_w = unsigned(a.scale_w);
    each_position(a.planes * a.height * a.width * a.scale_h * a.scale_w, [&](int i) {
        const Cell to = cell_of(i, a.height * a.scale_h, a.width * a.scale_w);
        const int row = int(unsigned(to.row) / scale_h), col = int(unsigned(to.col) / scale_w);
        a.to[i] = a.source[(to.plane * height + row) * width + col];
    });
}

EFL_KERNEL(upsample_backward, 256) {
    const int scale_h = int(a.scale_h), scale_w = int(a.scale_w);
    const int height = int(a.height) * scale_h, width = int(a.width) * scale_w;
    each_position(a.planes * a.height * a.width, [&](int i) {
        const Cell to = cell_of(i, a.height, a.width);
        const float* const from = a.source + (to.plane * height + to.row * scale_h) * width + to.col * scale_w;
        float sum = 0;
        for (int row = 0; row < scale_h; ++row)
            for (int col = 0; col < scale_w; ++col) sum += from[row * width + col];
        a.to[i] = sum;
    });
}

// Planes sampled anew. Along an axis a cell of the result is cell + share (other - cell), both of the source.
struct Sampled {
    int cell, other;
    float share;
};

struct ResampledAxis {
    int size, result, before, mode;
};

EFL_DEVICE int cell_of_room(const ResampledAxis& a, int i) {
    if (a.mode == 5) return a.size - 1 - i;
    if (i >= 0 && i < a.size) return i;
    if (a.mode == 2) return i < 0 ? -i : 2 * (a.size - 1) - i;
    if (a.mode == 3) return i < 0 ? 0 : a.size - 1;
    return i < 0 ? i + a.size : i - a.size;
}

// Exact: a place between cells is a fraction.
EFL_DEVICE Sampled sampled(const ResampledAxis& a, int i) {
    if (a.mode >= 2) {
        const int cell = cell_of_room(a, i - a.before);
        return {cell, cell, 0.0f};
    }
    const bool is_aligned = a.mode == 1, has_steps = a.result > 1;
    const Size parts = is_aligned ? (has_steps ? a.result - 1 : 1) : 2 * a.result;
    const Size place = is_aligned ? (has_steps ? Size(i) * (a.size - 1) : 0) : (2 * Size(i) + 1) * a.size - a.result;
    if (place <= 0) return {0, smaller(1, a.size - 1), 0.0f};
    const int cell = smaller(int(place / parts), a.size - 1);
    return {cell, smaller(cell + 1, a.size - 1), float(place - cell * parts) / float(parts)};
}

// The weight of a cell of the source in cell i of the result.
EFL_DEVICE float weight_of(const ResampledAxis& a, int cell, int i) {
    const Sampled s = sampled(a, i);
    return (s.cell == cell ? 1 - s.share : 0.0f) + (s.other == cell ? s.share : 0.0f);
}

// Numbers of the results of which a cell may be a part: the results near it of an interpolation, else its own and the
// room's.
EFL_DEVICE int first_part(const ResampledAxis& a, int cell) {
    if (a.mode < 2) return larger(0, int(Size(cell - 1) * a.result / a.size) - 2);
    return a.mode == 5 ? a.size - 1 - cell : 0;
}

EFL_DEVICE int end_of_parts(const ResampledAxis& a, int cell) {
    if (a.mode < 2) return smaller(a.result, int(Size(cell + 2) * a.result / a.size) + 2);
    return a.mode == 5 ? a.size - cell : a.result - a.size + 1;
}

EFL_DEVICE int part_of(const ResampledAxis& a, int cell, int k) {
    if (a.mode < 2 || a.mode == 5 || k < a.before) return k;
    return k == a.before ? a.before + cell : a.size + k - 1;
}

EFL_DEVICE ResampledAxis rows_of(const ResampleArgs& a) {
    return {int(a.height), int(a.out_height), int(a.top), a.mode == 5 ? 3 : int(a.mode)};
}

EFL_DEVICE ResampledAxis columns_of(const ResampleArgs& a) {
    return {int(a.width), int(a.out_width), int(a.left), int(a.mode)};
}

EFL_KERNEL(resample_forward, 256) {
    const ResampledAxis down = rows_of(a), across = columns_of(a);
    each_position(a.planes * a.out_height * a.out_width, [&](int i) {
        const Cell to = cell_of(i, a.out_height, a.out_width);
        const Sampled row = sampled(down, to.row), col = sampled(across, to.col);
        const float* const one = a.source + (to.plane * down.size + row.cell) * across.size;
        const float* const other = a.source + (to.plane * down.size + row.other) * across.size;
        if (a.mode >= 2) {
            a.to[i] = one[col.cell];
            return;
        }
        const float rest = 1 - col.share, above = rest * one[col.cell] + col.share * one[col.other];
        a.to[i] = (1 - row.share) * above + row.share * (rest * other[col.cell] + col.share * other[col.other]);
    });
}

EFL_KERNEL(resample_backward, 256) {
    const ResampledAxis down = rows_of(a), across = columns_of(a);
    each_position(a.planes * a.height * a.width, [&](int i) {
        const Cell to = cell_of(i, a.height, a.width);
        float sum = 0;
        const int end_of_rows = end_of_parts(down, to.row), end_of_columns = end_of_parts(across, to.col);
        for (int k = first_part(down, to.row); k < end_of_rows; ++k) {
            const int row = part_of(down, to.row, k);
            const float share = weight_of(down, to.row, row);
            if (share == 0) continue;
            const float* const from = a.source + (to.plane * down.result + row) * across.result;
            for (int m = first_part(across, to.col); m < end_of_columns; ++m) {
                const int col = part_of(across, to.col, m);
                const float weight = weight_of(across, to.col, col);
                if (weight != 0) sum += share * weight * from[col];
            }
        }
        a.to[i] = sum;
    });
}

// y[b, c, r, :] = x[b, r, c, :].
EFL_KERNEL(transpose_values, TILE_THREADS) {  // inner: 1
    EFL_SHARED Tile shared;
    const int rows = int(a.rows), cols = int(a.cols);
    transpose_tile(rows, cols, a.y, shared, [&](int b, int r, int c) { return a.x[(b * rows + r) * cols + c]; });
}

EFL_KERNEL(transpose_lines, 256) {
    const unsigned rows = unsigned(a.rows), cols = unsigned(a.cols), inner = unsigned(a.inner);
    each_position(a.batch * a.rows * a.cols * a.inner, [&](int i) {
        const unsigned line = unsigned(i) / inner, image = line / rows / cols, c = line / rows % cols;
        a.y[i] = a.x[((image * rows + line % rows) * cols + c) * inner + unsigned(i) % inner];
    });
}

// ---- rows of a table -----------------------------------------------------------------------------------------------

// The row that a float names; -1 if it is no whole number in [0, rows).
EFL_DEVICE int row_of(float id, int rows) { return id >= 0 && id < float(rows) && id == floorf(id) ? int(id) : -1; }

EFL_KERNEL(embedding_forward, TILE_THREADS) {
    EFL_SHARED Tile shared;
    const int length = int(a.length), rows = int(a.rows), features = int(a.features);
    transpose_tile(length, features, a.y, shared, [&](int b, int t, int feature) {
        const int row = row_of(a.ids[b * length + t], rows);
        return row < 0 ? NAN : a.weight[row * features + feature];
    });
}

constexpr int TABLE_ROWS = 8, TABLE_COLS = 32, POSITIONS_AT_ONCE = 1024;  // of a block, and between two barriers

// Which of the block's rows four positions name, a byte each; 255 where a position names no row of the block.
EFL_DEVICE unsigned rows_of_positions(const EmbeddingBackArgs& a, int first, int block_row) {
    unsigned found = 0;
    for (int k = 0; k < 4; ++k) {
        const int row = first + k < a.positions ? row_of(a.ids[first + k], int(a.rows)) : -1, within = row - block_row;
        const bool is_here = row >= 0 && row != a.padding && within >= 0 && within < TABLE_ROWS;
        found |= (is_here ? unsigned(within) : 255u) << (8 * k);
    }
    return found;
}

// A block takes 8 rows of the table and 32 columns, a thread one value. It passes over all positions, in order: without
// atomics and without sorting, which pays for tables of some ten thousand rows at most.
EFL_KERNEL(embedding_backward, 256) {
    EFL_SHARED unsigned named[POSITIONS_AT_ONCE / 4];
    const int group = int(threadIdx.x) / TABLE_COLS, lane = int(threadIdx.x) % TABLE_COLS;
    const int block_row = int(blockIdx.x) * TABLE_ROWS, row = block_row + group;
    const int j = int(blockIdx.y) * TABLE_COLS + lane, length = int(a.length), features = int(a.features);
    const bool is_here = row < a.rows && j < a.cols.count;
    const int col = is_here ? id_at(a.cols, j) : 0;
    float sum = 0;
    for (int from = 0; from < a.positions; from += POSITIONS_AT_ONCE) {
        named[threadIdx.x] = rows_of_positions(a, from + 4 * int(threadIdx.x), block_row);
        barrier();
        for (int word = 0; word < POSITIONS_AT_ONCE / 4; ++word) {
            if (named[word] == ~0u) continue;
            for (int k = 0; k < 4; ++k) {
                if (int(named[word] >> (8 * k) & 255) != group || !is_here) continue;
                const int position = from + 4 * word + k, image = position / length;
                sum += a.dy[(image * features + col) * length + position % length];
            }
        }
        barrier();  // before the next positions
    }
    if (is_here) a.dweight[row * a.cols.count + j] = sum;
}
