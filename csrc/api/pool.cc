// Pooling: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

static efl_status plane_index(efl_int64 planes, efl_int64 channels, efl_index channels_needed) {
    if (channels < 1 || planes % channels) return EFL_BAD_SHAPE;
    return index(channels_needed, channels);
}

efl_status efl_maxpool_forward_f32(const efl_pool2d* pool, const float* x, float* y, efl_uint8* codes) {
    EFL_CHECK(pointers({pool, x, y}));
    EFL_CHECK(geometry(*pool));
    EFL_CHECK(codes_fit(*pool));
    return table().maxpool_forward_f32(pool, x, y, codes);
}

efl_status efl_maxpool_backward_f32(const efl_pool2d* pool, const float* dy, const efl_uint8* codes, efl_int64 channels,
                                    efl_index channels_needed, float* dx) {
    EFL_CHECK(pointers({pool, dy, codes, dx}));
    EFL_CHECK(geometry(*pool));
    EFL_CHECK(codes_fit(*pool));
    EFL_CHECK(plane_index(pool->planes, channels, channels_needed));
    return table().maxpool_backward_f32(pool, dy, codes, channels, channels_needed, dx);
}

// Images side by side make planes of so many times the cells.
static efl_status widened(const efl_pool2d& pool, efl_int64 lanes) {
    EFL_CHECK(geometry(pool));
    EFL_CHECK(codes_fit(pool));
    if (lanes < 1) return EFL_BAD_ARGUMENT;
    EFL_CHECK(single_extents({lanes}));
    return extents({pool.planes, pool.height + 2 * pool.pad_h, pool.width + 2 * pool.pad_w, lanes});
}

efl_status efl_maxpool_lanes_forward_f32(const efl_pool2d* pool, efl_int64 lanes, const float* x, float* y,
                                         efl_uint8* codes) {
    EFL_CHECK(pointers({pool, x, y}));
    EFL_CHECK(widened(*pool, lanes));
    return table().maxpool_lanes_forward_f32(pool, lanes, x, y, codes);
}

efl_status efl_maxpool_lanes_backward_f32(const efl_pool2d* pool, efl_int64 lanes, const float* dy,
                                          const efl_uint8* codes, float* dx) {
    EFL_CHECK(pointers({pool, dy, codes, dx}));
    EFL_CHECK(widened(*pool, lanes));
    return table().maxpool_lanes_backward_f32(pool, lanes, dy, codes, dx);
}

efl_status efl_avgpool_forward_f32(const efl_pool2d* pool, const float* x, float* y) {
    EFL_CHECK(pointers({pool, x, y}));
    EFL_CHECK(geometry(*pool));
    return table().avgpool_forward_f32(pool, x, y);
}

efl_status efl_avgpool_backward_f32(const efl_pool2d* pool, const float* dy, efl_int64 channels,
                                    efl_index channels_needed, float* dx) {
    EFL_CHECK(pointers({pool, dy, dx}));
    EFL_CHECK(geometry(*pool));
    EFL_CHECK(plane_index(pool->planes, channels, channels_needed));
    return table().avgpool_backward_f32(pool, dy, channels, channels_needed, dx);
}

static efl_status geometry(const efl_adaptive& p) {
    if (p.height < 1 || p.width < 1 || p.out_height < 1 || p.out_width < 1) return EFL_BAD_SHAPE;
    return extents({p.planes, p.height, p.width, p.out_height, p.out_width});
}

efl_status efl_adaptive_avgpool_forward_f32(const efl_adaptive* pool, const float* x, float* y) {
    EFL_CHECK(pointers({pool, x, y}));
    EFL_CHECK(geometry(*pool));
    return table().adaptive_avgpool_forward_f32(pool, x, y);
}

efl_status efl_adaptive_avgpool_backward_f32(const efl_adaptive* pool, const float* dy, efl_int64 channels,
                                             efl_index channels_needed, float* dx) {
    EFL_CHECK(pointers({pool, dy, dx}));
    EFL_CHECK(geometry(*pool));
    EFL_CHECK(plane_index(pool->planes, channels, channels_needed));
    return table().adaptive_avgpool_backward_f32(pool, dy, channels, channels_needed, dx);
}
