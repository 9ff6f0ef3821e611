// Checks of arguments shared by the functions of the C ABI. Each returns the status to give back, EFL_OK if all is
// well: nothing is read or written before them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "geometry.h"

namespace efl {

// The most that the extents of an operation may multiply to. No machine holds or computes as much, and what a kernel
// makes of such extents (bytes, padded planes, tables, 16 points for 4 cells) still fits in 63 bits.
constexpr efl_int64 MOST = efl_int64(1) << 54;

// Each in [0, MOST], so that a few of them may be added.
inline efl_status single_extents(std::initializer_list<efl_int64> all) {
    for (efl_int64 n : all)
        if (n < 0 || n > MOST) return EFL_BAD_SHAPE;
    return EFL_OK;
}

// None negative, and together at most MOST. 0 counts as 1: the others are multiplied with each other.
inline efl_status extents(std::initializer_list<efl_int64> all) {
    efl_int64 product = 1;
    for (efl_int64 n : all) {
        if (n < 0 || n > MOST / product) return EFL_BAD_SHAPE;
        if (n > 0) product *= n;
    }
    return EFL_OK;
}

inline efl_status pointers(std::initializer_list<const void*> all) {
    for (const void* p : all)
        if (!p) return EFL_BAD_ARGUMENT;
    return EFL_OK;
}

// Sorted, unique and inside [0, extent).
template <class Id>
efl_status sorted_ids(const Id* ids, efl_int64 count, efl_int64 extent) {
    if (count < 0) return EFL_BAD_SHAPE;
    if (count > extent) return EFL_BAD_INDEX;  // not unique, or out of range
    efl_int64 previous = -1;
    for (efl_int64 i = 0; i < count; ++i) {
        if (efl_int64(ids[i]) <= previous) return EFL_BAD_INDEX;
        previous = ids[i];
    }
    return previous < extent ? EFL_OK : EFL_BAD_INDEX;
}

inline efl_status index(efl_index index, efl_int64 extent) {
    return index.ids ? sorted_ids(index.ids, index.count, extent) : EFL_OK;
}

// How many ids there are, of so many.
inline efl_int64 selected(efl_index index, efl_int64 extent) { return index.ids ? index.count : extent; }

// Every id divided by `size` is in `outer`: channels inside the groups (size channels each), or with size 1, a subset.
// Both indices already valid; `extent` is what a missing `ids` means.
inline efl_status members(efl_index ids, efl_int64 extent, efl_index outer, efl_int64 size) {
    if (!outer.ids) return EFL_OK;
    const efl_int64 count = ids.ids ? ids.count : extent;
    efl_int64 o = 0;
    for (efl_int64 i = 0; i < count; ++i) {
        const efl_int64 id = (ids.ids ? ids.ids[i] : i) / size;
        while (o < outer.count && outer.ids[o] < id) ++o;
        if (o == outer.count || outer.ids[o] != id) return EFL_BAD_INDEX;
    }
    return EFL_OK;
}

// Any order, inside [0, extent).
inline efl_status unsorted_ids(const efl_int32* ids, efl_int64 count, efl_int64 extent) {
    for (efl_int64 i = 0; i < count; ++i)
        if (ids[i] < 0 || ids[i] >= extent) return EFL_BAD_INDEX;
    return EFL_OK;
}

// The padded cells of an axis, or a stride that leads beyond them; 0 if the window does not fit.
inline efl_int64 reach(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dilation) {
    const efl_int64 padded = size + 2 * pad;
    if (padded < 1 || (padded - 1) / dilation < kernel - 1) return 0;
    return padded > stride ? padded : stride;
}

// All products of the extents of a convolution, with `channels` of them on its input's side.
inline efl_status products(const efl_conv2d& c, efl_int64 channels) {
    const efl_int64 rows = reach(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h);
    const efl_int64 cols = reach(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w);
    if (rows == 0 || cols == 0) return EFL_BAD_SHAPE;
    return extents({c.batch, channels, c.out_channels, rows, cols, c.kernel_h, c.kernel_w});
}

inline efl_status geometry(const efl_conv2d& c) {
    if (efl_status s = single_extents({c.batch, c.in_channels, c.height, c.width, c.out_channels, c.pad_h, c.pad_w}))
        return s;
    if (c.kernel_h < 1 || c.kernel_w < 1 || c.stride_h < 1 || c.stride_w < 1 || c.dil_h < 1 || c.dil_w < 1)
        return EFL_BAD_ARGUMENT;
    if (c.groups < 1 || c.in_channels % c.groups || c.out_channels % c.groups) return EFL_BAD_ARGUMENT;
    if (efl_status s = single_extents({c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.dil_h, c.dil_w, c.groups}))
        return s;
    return products(c, c.in_channels);
}

inline efl_status geometry(const efl_pool2d& p) {
    if (efl_status s = single_extents({p.planes, p.height, p.width, p.pad_h, p.pad_w})) return s;
    if (p.kernel_h < 1 || p.kernel_w < 1 || p.stride_h < 1 || p.stride_w < 1) return EFL_BAD_ARGUMENT;
    if (2 * p.pad_h > p.kernel_h || 2 * p.pad_w > p.kernel_w) return EFL_BAD_ARGUMENT;
    if (p.height == 0 || p.width == 0) return EFL_BAD_SHAPE;  // windows of padding alone, of which no cell can win
    if (efl_status s = single_extents({p.kernel_h, p.kernel_w, p.stride_h, p.stride_w})) return s;
    const efl_int64 rows = pool_windows(p.height, p.kernel_h, p.stride_h, p.pad_h, p.ceil_mode);
    const efl_int64 cols = pool_windows(p.width, p.kernel_w, p.stride_w, p.pad_w, p.ceil_mode);
    if (rows == 0 || cols == 0) return EFL_BAD_SHAPE;
    const auto most = [](efl_int64 size, efl_int64 pad, efl_int64 stride) { return std::max(size + 2 * pad, stride); };
    return extents(
        {p.planes, most(p.height, p.pad_h, p.stride_h), most(p.width, p.pad_w, p.stride_w), p.kernel_h, p.kernel_w});
}

// A max pool numbers the cells of its window by one byte.
inline efl_status codes_fit(const efl_pool2d& p) {
    return p.kernel_h > 255 || p.kernel_w > 255 || p.kernel_h * p.kernel_w > 255 ? EFL_BAD_ARGUMENT : EFL_OK;
}

// ---- checks of single operations, by the names that rows of edgefl/kernels/table.py give them

// Each a whole number in [0, rows).
inline efl_status whole_rows(const float* ids, efl_int64 count, efl_int64 rows) {
    for (efl_int64 i = 0; i < count; ++i)
        if (!(ids[i] >= 0 && ids[i] < float(rows)) || float(efl_int64(ids[i])) != ids[i]) return EFL_BAD_INDEX;
    return EFL_OK;
}

// int8 codes of one byte with scales, or bfloat16 values of two bytes without.
inline efl_status stored_bytes(efl_int64 bytes, const float* row_scale, const float* col_scale) {
    return bytes == (row_scale || col_scale ? 1 : 2) ? EFL_OK : EFL_BAD_SHAPE;
}

// Sums of products of int8 codes that 32 bits hold, in one group.
inline efl_status whole_sums(const efl_conv2d& c) {
    if (c.groups != 1) return EFL_BAD_ARGUMENT;
    return c.in_channels * c.kernel_h * c.kernel_w > 131072 ? EFL_BAD_SHAPE : EFL_OK;
}

// Steps of an expression: known operations, which read inputs that are there, constants or earlier steps.
inline efl_status program_steps(const efl_int32* program, efl_int64 steps, efl_int64 constants,
                                std::initializer_list<const float*> inputs) {
    constexpr int operands[] = {0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 1, 1, 1, 1, 1, 1};
    const efl_int64 given = efl_int64(inputs.size());
    for (efl_int64 k = 0; k < steps; ++k) {
        const efl_int32* const step = program + 4 * k;
        if (step[0] < 0 || step[0] >= efl_int32(std::size(operands))) return EFL_BAD_ARGUMENT;
        if (step[0] == 0 && (step[1] < 0 || step[1] >= constants)) return EFL_BAD_ARGUMENT;
        for (int i = 1; i <= operands[step[0]]; ++i)
            if (step[i] < 0 || step[i] >= given + k || (step[i] < given && !inputs.begin()[step[i]]))
                return EFL_BAD_ARGUMENT;
    }
    return EFL_OK;
}

// Grouped: either all planes, or for depthwise layers one plane per group that has an active output.
inline efl_status grouped_planes(const efl_conv2d& c, efl_int64 x_channels, efl_index outs, efl_index ins) {
    if (c.groups == 1) return EFL_OK;
    if (ins.ids) return EFL_BAD_ARGUMENT;
    if (x_channels == c.in_channels) return EFL_OK;
    if (c.in_channels != c.groups || !outs.ids) return EFL_BAD_SHAPE;
    const efl_int64 multiplier = c.out_channels / c.groups;
    efl_int64 planes = 0;
    for (efl_int64 j = 0; j < outs.count; ++j)
        planes += j == 0 || outs.ids[j] / multiplier != outs.ids[j - 1] / multiplier;
    return x_channels == planes ? EFL_OK : EFL_BAD_SHAPE;
}

// A 2 x 2 pool of planes that hold a window.
inline efl_status halving(efl_int64 height, efl_int64 width, efl_int32 halved) {
    return halved && (height < 2 || width < 2) ? EFL_BAD_SHAPE : EFL_OK;
}

// So many planes are images of so many channels.
inline efl_status whole_images(efl_int64 planes, efl_int64 channels) {
    return channels < 1 || planes % channels ? EFL_BAD_SHAPE : EFL_OK;
}

// Images side by side make planes of so many times the cells.
inline efl_status widened(const efl_pool2d& pool, efl_int64 lanes) {
    if (lanes < 1) return EFL_BAD_ARGUMENT;
    if (efl_status s = single_extents({lanes})) return s;
    return extents({pool.planes, pool.height + 2 * pool.pad_h, pool.width + 2 * pool.pad_w, lanes});
}

}  // namespace efl

// The first check of the list that fails is the function's answer.
#define EFL_CHECK(expression) \
    if (efl_status failed = (expression)) return failed
