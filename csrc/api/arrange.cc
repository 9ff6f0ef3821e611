// Channels, planes and cells put elsewhere: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

static efl_status part_of(efl_int64 first, efl_int64 channels, efl_int64 all_channels) {
    return first >= 0 && channels <= all_channels && first <= all_channels - channels ? EFL_OK : EFL_BAD_SHAPE;
}

static efl_status geometry(const efl_room& r) {
    EFL_CHECK(extents({r.planes, r.height, r.width}));
    EFL_CHECK(extents({r.planes, r.out_height, r.out_width}));
    EFL_CHECK(part_of(r.top, r.height, r.out_height));
    return part_of(r.left, r.width, r.out_width);
}

static efl_status geometry(const efl_scaling& s) {
    if (s.scale_h < 1 || s.scale_w < 1) return EFL_BAD_ARGUMENT;
    return extents({s.planes, s.height, s.width, s.scale_h, s.scale_w});
}

efl_status efl_put_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_int64 first,
                                efl_int64 all_channels, float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(extents({batch, all_channels, inner}));
    EFL_CHECK(part_of(first, channels, all_channels));
    EFL_CHECK(pointers({x, y}));
    return table().put_channels_f32(x, batch, channels, inner, first, all_channels, y);
}

efl_status efl_get_channels_f32(const float* y, efl_int64 batch, efl_int64 all_channels, efl_int64 inner,
                                efl_int64 first, efl_int64 channels, float* x) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(extents({batch, all_channels, inner}));
    EFL_CHECK(part_of(first, channels, all_channels));
    EFL_CHECK(pointers({x, y}));
    return table().get_channels_f32(y, batch, all_channels, inner, first, channels, x);
}

efl_status efl_pad_planes_f32(const efl_room* room, const float* x, float* y) {
    EFL_CHECK(pointers({room, x, y}));
    EFL_CHECK(geometry(*room));
    return table().pad_planes_f32(room, x, y);
}

efl_status efl_crop_planes_f32(const efl_room* room, const float* y, float* x) {
    EFL_CHECK(pointers({room, x, y}));
    EFL_CHECK(geometry(*room));
    return table().crop_planes_f32(room, y, x);
}

efl_status efl_upsample_forward_f32(const efl_scaling* scaling, const float* x, float* y) {
    EFL_CHECK(pointers({scaling, x, y}));
    EFL_CHECK(geometry(*scaling));
    return table().upsample_forward_f32(scaling, x, y);
}

efl_status efl_upsample_backward_f32(const efl_scaling* scaling, const float* dy, float* dx) {
    EFL_CHECK(pointers({scaling, dy, dx}));
    EFL_CHECK(geometry(*scaling));
    return table().upsample_backward_f32(scaling, dy, dx);
}

efl_status efl_transpose_f32(const float* x, efl_int64 batch, efl_int64 rows, efl_int64 cols, efl_int64 inner,
                             float* y) {
    EFL_CHECK(extents({batch, rows, cols, inner}));
    EFL_CHECK(pointers({x, y}));
    return table().transpose_f32(x, batch, rows, cols, inner, y);
}

// Each a whole number in [0, rows); not a number is none.
static efl_status rows_of(const float* ids, efl_int64 count, efl_int64 rows) {
    for (efl_int64 i = 0; i < count; ++i)
        if (!(ids[i] >= 0 && ids[i] < float(rows)) || float(efl_int64(ids[i])) != ids[i]) return EFL_BAD_INDEX;
    return EFL_OK;
}

efl_status efl_embedding_forward_f32(const float* ids, efl_int64 batch, efl_int64 length, const float* weight,
                                     efl_int64 rows, efl_int64 features, float* y) {
    EFL_CHECK(extents({batch, length, features}));
    EFL_CHECK(extents({rows, features}));
    EFL_CHECK(pointers({ids, weight, y}));
    EFL_CHECK(rows_of(ids, batch * length, rows));
    return table().embedding_forward_f32(ids, batch, length, weight, rows, features, y);
}

efl_status efl_embedding_backward_f32(const float* dy, const float* ids, efl_int64 batch, efl_int64 features,
                                      efl_int64 length, efl_int64 rows, efl_int64 padding, efl_index cols,
                                      float* dweight) {
    EFL_CHECK(extents({batch, length, features}));
    EFL_CHECK(extents({rows, features}));
    EFL_CHECK(pointers({dy, ids, dweight}));
    EFL_CHECK(index(cols, features));
    EFL_CHECK(rows_of(ids, batch * length, rows));
    if (padding < -1 || padding >= rows) return EFL_BAD_ARGUMENT;
    return table().embedding_backward_f32(dy, ids, batch, features, length, rows, padding, cols, dweight);
}
