// Convolutions: forward, and the gradients of active channels. Contracts: edgefl/kernels/table.py. Both are products of
// tiles (gathered_product.cuh) whose operands are read through the window as they are fetched; no matrix of windows is
// made:
//
//     forward, dx   rows: channels of the target; columns: images and cells of a phase; depth: source channels and taps
//     dw            rows: outs; columns: ins and taps; depth: images and cells of y
//
// Where there are few tiles and much depth, blocks share the depth of a tile, and sum_parts adds what they found.
// Layers with one input channel a group have kernels of their own: depthwise.cuh.
#pragma once
#include "depthwise.cuh"
#include "gathered_product.cuh"
#include "places.cuh"
#include "window.cuh"

namespace convolution {

using gathered::Column;
using gathered::OUTSIDE;
using gathered::Position;

using Huge = gathered::Tile<128, 128, 8, 8, 8>;
using Long = gathered::Tile<64, 128, 8, 8, 8>;
using Square = gathered::Tile<64, 64, 16, 8, 4>;
using Flat = gathered::Tile<32, 64, 16, 4, 4>;

// The part of a depth that a split takes, in whole steps.
EFL_DEVICE Range part_of(int depth, int split, Size splits, int step) {
    const int steps = (depth + step - 1) / step, size = (steps + int(splits) - 1) / int(splits) * step;
    return {smaller(depth, split * size), smaller(depth, (split + 1) * size)};
}

// ---- forward and dx -------------------------------------------------------------------------------------------------

struct WindowSource {
    const float *left, *right;
    int height, width;
    const WindowArgs& a;
    const Work& work;
};

EFL_DEVICE int row_of(const WindowSource& s, int m) {
    if (s.work.rows.first + m >= s.work.rows.last) return OUTSIDE;
    return id_at(s.a.rows, s.work.rows.first + m) * int(s.a.row_apart) - s.work.row_weights;
}

EFL_DEVICE Column column_of(const WindowSource& s, int n) {
    const Axis &h = s.work.h, &w = s.work.w;
    if (n >= int(s.a.batch) * h.cells * w.cells) return {0, OUTSIDE, OUTSIDE};
    const int right = taken(n, w.cells) * w.step + w.first, below = taken(n, h.cells) * h.step + h.first;
    return {(n * int(s.a.source_channels) * s.height + below) * s.width + right, below, right};
}

EFL_DEVICE Position position_of(const WindowSource& s, int k) {
    const Axis &h = s.work.h, &w = s.work.w;
    const int x = taken(k, w.taps), y = taken(k, h.taps), channel = id_at(s.a.depths, s.work.depths.first + k);
    const int tap = (h.first_tap + y * h.tap_step) * int(s.a.w.kernel) + w.first_tap + x * w.tap_step;
    const int below = y * h.apart, right = x * w.apart;
    const int left = channel * int(s.a.depth_apart) - s.work.depth_weights + tap;
    return {left, (channel * s.height + below) * s.width + right, below, right};
}

// Where the values of columns n to n + 3 lie in their channel's first plane; OUTSIDE if there is no such column.
EFL_DEVICE void find_targets(const WindowSource& s, int n, int channels, int* positions) {
    const Axis &down = s.work.h, &across = s.work.w;
    const int left = int(s.a.batch) * down.cells * across.cells - n;
    int w = taken(n, across.cells), h = taken(n, down.cells);  // and n is the image
    EFL_UNROLL
    for (int i = 0; i < 4; ++i) {
        const int line = (n * channels * int(s.a.h.target)) + h * down.cell_step + down.first_cell;
        positions[i] = i < left ? line * int(s.a.w.target) + w * across.cell_step + across.first_cell : OUTSIDE;
        if (++w < across.cells) continue;
        w = 0;
        if (++h < down.cells) continue;
        h = 0;
        ++n;
    }
}

// Writes a block's sums to their positions: in the target's chosen channels, or side by side for sum_parts, which adds
// the bias.
template <class T>
EFL_DEVICE void store(const WindowSource& s, float (&sum)[T::TALL][T::WIDE]) {
    const WindowArgs& a = s.a;
    const bool is_part = a.parts != nullptr;
    const int plane = int(a.h.target) * int(a.w.target), channels = int(is_part ? a.rows.count : a.target_channels);
    float* const target = is_part ? a.parts + Size(s.work.split) * a.batch * channels * plane : a.target;
    const bool is_wide = a.phases == 1 && plane % 4 == 0 && reinterpret_cast<unsigned long long>(target) % 16 == 0;
    int positions[T::WIDE];
    EFL_UNROLL
    for (int j = 0; j < T::WIDE; j += 4) find_targets(s, s.work.first_column + T::column(j), channels, positions + j);
    EFL_UNROLL
    for (int i = 0; i < T::TALL; ++i) {
        const int chosen = s.work.rows.first + s.work.first_row + T::row(i);
        if (chosen >= s.work.rows.last) continue;
        const int channel = is_part ? chosen : id_at(a.rows, chosen);
        const float bias = a.bias && !is_part ? a.bias[channel] : 0.0f;
        float* const to = target + channel * plane;
        EFL_UNROLL
        for (int j = 0; j < T::WIDE; j += 4) {
            const float* const four = &sum[i][j];
            if (is_wide && positions[j] >= 0) {
                *reinterpret_cast<float4*>(to + positions[j]) =
                    make_float4(four[0] + bias, four[1] + bias, four[2] + bias, four[3] + bias);
                continue;
            }
            EFL_UNROLL
            for (int l = 0; l < 4; ++l) {
                if (positions[j + l] >= 0) to[positions[j + l]] = four[l] + bias;
            }
        }
    }
}

// Blocks lie in a row: those of neighbouring rows first, which read the same source.
template <class T>
EFL_DEVICE void find_work(const WindowArgs& a, Work& work) {
    int block = int(blockIdx.x);
    const int first_row = taken(block, a.row_tiles) * T::ROWS, first_column = taken(block, a.column_tiles) * T::COLUMNS;
    find_axes(a, taken(block, a.phases), work);
    const int group = taken(block, a.groups), split = block;
    find_group(a.rows, group, a.groups, a.target_channels, work.rows);
    find_group(a.depths, group, a.groups, a.source_channels, work.depths);
    if (threadIdx.x > 0) return;
    work.first_row = first_row, work.first_column = first_column, work.split = split;
    work.row_weights = a.is_back ? group * int(a.row_apart * (a.target_channels / a.groups)) : 0;
    work.depth_weights = a.is_back ? 0 : group * int(a.depth_apart * (a.source_channels / a.groups));
}

template <class T>
EFL_DEVICE void multiply_window(const WindowArgs& a, gathered::Shared<T, false>& shared, Work& work) {
    find_work<T>(a, work);
    barrier();
    if (work.first_row >= work.rows.last - work.rows.first) return;
    if (work.first_column >= int(a.batch) * work.h.cells * work.w.cells) return;
    const WindowSource source{a.weight, a.source, int(a.h.source), int(a.w.source), a, work};
    const int depth = (work.depths.last - work.depths.first) * work.h.taps * work.w.taps;
    const Range part = part_of(depth, work.split, a.splits, T::DEPTH);
    float sum[T::TALL][T::WIDE];
    gathered::multiply(source, work.first_row, work.first_column, part.first, part.last, shared, sum);
    store<T>(source, sum);
}

// ---- dw -------------------------------------------------------------------------------------------------------------

struct WeightSource {
    const float *left, *right;
    int height, width;
    const WeightArgs& a;
    const Range& rows;
    int columns, first_plane;
};

EFL_DEVICE int row_of(const WeightSource& s, int m) {
    const int plane = int(s.a.h.target) * int(s.a.w.target);
    return s.rows.first + m < s.rows.last ? id_at(s.a.outs, s.rows.first + m) * plane : OUTSIDE;
}

EFL_DEVICE Column column_of(const WeightSource& s, int n) {
    if (n >= s.columns) return {0, OUTSIDE, OUTSIDE};
    const int w = taken(n, s.a.w.kernel) * int(s.a.w.dilation), h = taken(n, s.a.h.kernel) * int(s.a.h.dilation);
    return {((s.first_plane + id_at(s.a.ins, n)) * s.height + h) * s.width + w, h, w};
}

EFL_DEVICE Position position_of(const WeightSource& s, int k) {
    const Extent &down = s.a.h, &across = s.a.w;
    const int q = taken(k, across.target), p = taken(k, down.target);
    const int h = p * int(down.stride) - int(down.padding), w = q * int(across.stride) - int(across.padding);
    return {(k * int(s.a.out_channels) * int(down.target) + p) * int(across.target) + q,
            (k * int(s.a.x_channels) * s.height + h) * s.width + w, h, w};
}

template <class T>
EFL_DEVICE void multiply_for_weight(const WeightArgs& a, gathered::Shared<T, true>& shared, Range& rows) {
    int block = int(blockIdx.x);
    const int first_row = taken(block, a.row_tiles) * T::ROWS, first_column = taken(block, a.column_tiles) * T::COLUMNS;
    const int group = taken(block, a.groups), split = block, ins = int(a.ins.count);
    find_group(a.outs, group, a.groups, a.out_channels, rows);
    barrier();
    if (first_row >= rows.last - rows.first) return;
    const int columns = ins * int(a.h.kernel * a.w.kernel);
    const WeightSource source{a.dy, a.x, int(a.h.source), int(a.w.source), a, rows, columns, group * ins};
    const Range part = part_of(int(a.batch * a.h.target * a.w.target), split, a.splits, T::DEPTH);
    float sum[T::TALL][T::WIDE];
    gathered::multiply(source, first_row, first_column, part.first, part.last, shared, sum);
    float* const target = a.dw + Size(split) * a.outs.count * columns;
    const bool is_wide = columns % 4 == 0 && reinterpret_cast<unsigned long long>(target) % 16 == 0;
    EFL_UNROLL
    for (int i = 0; i < T::TALL; ++i) {
        const int row = rows.first + first_row + T::row(i);
        if (row >= rows.last) continue;
        EFL_UNROLL
        for (int j = 0; j < T::WIDE; j += 4) {
            const int column = first_column + T::column(j);
            float* const to = target + row * columns + column;
            const float* const four = &sum[i][j];
            if (is_wide && column < columns) {
                *reinterpret_cast<float4*>(to) = make_float4(four[0], four[1], four[2], four[3]);
                continue;
            }
            EFL_UNROLL
            for (int l = 0; l < 4; ++l) {
                if (column + l < columns) to[l] = four[l];
            }
        }
    }
}

}  // namespace convolution

// Registers for 512 threads a processor, 384 of the long tiles. tf32.cuh has more of these.
#define EFL_CONVOLUTION(name, Tile, blocks)                                      \
    EFL_KERNEL(convolution_##name, EFL_RESIDENT(Tile::THREADS, blocks)) {        \
        EFL_SHARED gathered::Shared<Tile, false> shared;                         \
        EFL_SHARED convolution::Work work;                                       \
        convolution::multiply_window<Tile>(a, shared, work);                     \
    }                                                                            \
    EFL_KERNEL(convolution_weight_##name, EFL_RESIDENT(Tile::THREADS, blocks)) { \
        EFL_SHARED gathered::Shared<Tile, true> shared;                          \
        EFL_SHARED convolution::Range rows;                                      \
        convolution::multiply_for_weight<Tile>(a, shared, rows);                 \
    }

EFL_CONVOLUTION(huge, convolution::Huge, 2)
EFL_CONVOLUTION(long, convolution::Long, 3)
EFL_CONVOLUTION(square, convolution::Square, 4)
EFL_CONVOLUTION(flat, convolution::Flat, 4)

// ---- sums over parts ------------------------------------------------------------------------------------------------

// target[b, rows[j], :] = the sum of parts [splits, batch, rows, inner] + bias. A block has 32 neighbours;
// eight threads share the parts of one.
EFL_KERNEL(convolution_sum_parts, 256) {
    EFL_SHARED float sums[8][32];
    const int lane = int(threadIdx.x) % 32, eighth = int(threadIdx.x) / 32;
    const int count = int(a.batch * a.rows.count * a.inner), at = int(blockIdx.x) * 32 + lane;
    float sum = 0;
    for (int split = eighth; at < count && split < a.splits; split += 8) sum += a.parts[Size(split) * count + at];
    sums[eighth][lane] = sum;
    barrier();
    if (eighth > 0 || at >= count) return;
    for (int other = 1; other < 8; ++other) sum += sums[other][lane];
    using convolution::taken;
    int image = at;
    const int position = taken(image, a.inner), channel = id_at(a.rows, taken(image, a.rows.count));
    a.target[(image * int(a.channels) + channel) * int(a.inner) + position] = a.bias ? sum + a.bias[channel] : sum;
}

// The same where there are many sums and few parts: a thread has four neighbours of a plane, or one value.
EFL_KERNEL(convolution_add_parts, 256) {
    const int inner = int(a.inner), count = int(a.batch * a.rows.count) * inner;
    const int width = inner % 4 == 0 ? 4 : 1;
    const bool is_wide = width == 4 && are_aligned(a.parts, a.target);
    each_position(count / width, [&](int i) {
        using convolution::taken;
        const int at = i * width;
        int image = at;
        const int position = taken(image, inner), channel = id_at(a.rows, taken(image, a.rows.count));
        float* const to = a.target + (image * int(a.channels) + channel) * inner + position;
        const float bias = a.bias ? a.bias[channel] : 0.0f;
        if (width == 1) {
            float sum = bias;
            for (int split = 0; split < a.splits; ++split) sum += a.parts[Size(split) * count + at];
            *to = sum;
            return;
        }
        float sums[4] = {bias, bias, bias, bias};
        for (int split = 0; split < a.splits; ++split) {
            float more[4];
            read_neighbours(a.parts + Size(split) * count + at, is_wide, more);
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) sums[k] += more[k];
        }
        write_neighbours(to, is_wide, sums);
    });
}
