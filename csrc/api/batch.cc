// Batches gathered by index: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_gather_rows_u8(const efl_uint8* src, efl_int64 rows, efl_int64 width, const efl_int32* ids,
                              efl_int64 count, float scale, float shift, float* dst) {
    EFL_CHECK(extents({rows, width}));
    EFL_CHECK(extents({count, width}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_rows_u8(src, rows, width, ids, count, scale, shift, dst);
}

efl_status efl_gather_rows_f32(const float* src, efl_int64 rows, efl_int64 width, const efl_int32* ids, efl_int64 count,
                               float scale, float shift, float* dst) {
    EFL_CHECK(extents({rows, width}));
    EFL_CHECK(extents({count, width}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_rows_f32(src, rows, width, ids, count, scale, shift, dst);
}

efl_status efl_gather_labels(const efl_int32* src, efl_int64 rows, const efl_int32* ids, efl_int64 count,
                             efl_int32* dst) {
    EFL_CHECK(extents({rows}));
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_labels(src, rows, ids, count, dst);
}

efl_status efl_take_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index ids,
                                 float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, y}));
    EFL_CHECK(index(ids, channels));
    return table().take_channels_f32(x, batch, channels, inner, ids, y);
}

static efl_status side_by_side(efl_int64 batch, efl_int64 inner, efl_int64 lanes) {
    EFL_CHECK(extents({batch, inner}));
    return lanes < 1 || batch % lanes ? EFL_BAD_ARGUMENT : EFL_OK;
}

efl_status efl_to_lanes_f32(const float* x, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* y) {
    EFL_CHECK(side_by_side(batch, inner, lanes));
    EFL_CHECK(pointers({x, y}));
    return table().to_lanes_f32(x, batch, inner, lanes, y);
}

efl_status efl_from_lanes_f32(const float* y, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* x) {
    EFL_CHECK(side_by_side(batch, inner, lanes));
    EFL_CHECK(pointers({y, x}));
    return table().from_lanes_f32(y, batch, inner, lanes, x);
}
