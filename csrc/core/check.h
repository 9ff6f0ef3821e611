// Checks of arguments shared by the functions of the C ABI. Each returns the status to give back, EFL_OK if all is well.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "geometry.h"

namespace efl {

inline efl_status extents(std::initializer_list<efl_int64> all) {
    for (efl_int64 n : all)
        if (n < 0) return EFL_BAD_SHAPE;
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

inline efl_status geometry(const efl_conv2d& c) {
    if (efl_status s = extents({c.batch, c.in_channels, c.height, c.width, c.out_channels, c.pad_h, c.pad_w})) return s;
    if (c.kernel_h < 1 || c.kernel_w < 1 || c.stride_h < 1 || c.stride_w < 1 || c.dil_h < 1 || c.dil_w < 1) return EFL_BAD_ARGUMENT;
    if (c.groups < 1 || c.in_channels % c.groups || c.out_channels % c.groups) return EFL_BAD_ARGUMENT;
    const bool fits = windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h) > 0 &&
                      windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w) > 0;
    return fits ? EFL_OK : EFL_BAD_SHAPE;
}

inline efl_status geometry(const efl_pool2d& p) {
    if (efl_status s = extents({p.planes, p.height, p.width, p.pad_h, p.pad_w})) return s;
    if (p.kernel_h < 1 || p.kernel_w < 1 || p.stride_h < 1 || p.stride_w < 1) return EFL_BAD_ARGUMENT;
    if (2 * p.pad_h > p.kernel_h || 2 * p.pad_w > p.kernel_w) return EFL_BAD_ARGUMENT;
    const bool fits = windows(p.height, p.kernel_h, p.stride_h, p.pad_h, 1) > 0 &&
                      windows(p.width, p.kernel_w, p.stride_w, p.pad_w, 1) > 0;
    return fits ? EFL_OK : EFL_BAD_SHAPE;
}

// A max pool numbers the cells of its window by one byte.
inline efl_status codes_fit(const efl_pool2d& p) {
    return p.kernel_h > 255 || p.kernel_w > 255 || p.kernel_h * p.kernel_w > 255 ? EFL_BAD_ARGUMENT : EFL_OK;
}

}  // namespace efl

// The first check of the list that fails is the function's answer.
#define EFL_CHECK(expression) \
    if (efl_status failed = (expression)) return failed
