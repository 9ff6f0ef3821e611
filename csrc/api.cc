// The C ABI: checks every argument of edgefl.h's kernels, then calls the table. No arithmetic on tensors here. The normalisations
// are in api_norm.cc.
#include <cmath>

#include "core/check.h"
#include "core/dispatch.h"

using namespace efl;

extern "C" {

// ---- library

const char* efl_isa(void) { return isa(); }
efl_int32 efl_has_isa(const char* name) { return has_isa(name); }
efl_status efl_cap_isa(const char* name) { return cap_isa(name) ? EFL_OK : EFL_BAD_ISA; }

// ---- batches

efl_status efl_gather_rows_u8(const efl_uint8* src, efl_int64 rows, efl_int64 width, const efl_int32* ids, efl_int64 count,
                              float scale, float shift, float* dst) {
    EFL_CHECK(extents({rows, width, count}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_rows_u8(src, rows, width, ids, count, scale, shift, dst);
}

efl_status efl_gather_rows_f32(const float* src, efl_int64 rows, efl_int64 width, const efl_int32* ids, efl_int64 count,
                               float scale, float shift, float* dst) {
    EFL_CHECK(extents({rows, width, count}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_rows_f32(src, rows, width, ids, count, scale, shift, dst);
}

efl_status efl_gather_labels(const efl_int32* src, efl_int64 rows, const efl_int32* ids, efl_int64 count, efl_int32* dst) {
    EFL_CHECK(extents({rows, count}));
    EFL_CHECK(pointers({src, ids, dst}));
    EFL_CHECK(unsorted_ids(ids, count, rows));
    return table().gather_labels(src, rows, ids, count, dst);
}

efl_status efl_take_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index ids, float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, y}));
    EFL_CHECK(index(ids, channels));
    return table().take_channels_f32(x, batch, channels, inner, ids, y);
}

// ---- convolution

efl_status efl_conv2d_forward_f32(const efl_conv2d* conv, const float* x, const float* weight, const float* bias, float* y) {
    EFL_CHECK(pointers({conv, x, weight, y}));
    EFL_CHECK(geometry(*conv));
    return table().conv2d_forward_f32(conv, x, weight, bias, y);
}

efl_status efl_conv2d_grad_input_f32(const efl_conv2d* conv, const float* dy, const float* weight, efl_index outs, efl_index ins,
                                     float* dx) {
    EFL_CHECK(pointers({conv, dy, weight, dx}));
    EFL_CHECK(geometry(*conv));
    EFL_CHECK(index(outs, conv->out_channels));
    EFL_CHECK(index(ins, conv->in_channels));
    return table().conv2d_grad_input_f32(conv, dy, weight, outs, ins, dx);
}

// Grouped: either all planes, or for depthwise layers one plane per group that has an active output.
static efl_status grouped_planes(const efl_conv2d& c, efl_int64 x_channels, efl_index outs, efl_index ins) {
    if (c.groups == 1) return EFL_OK;
    if (ins.ids) return EFL_BAD_ARGUMENT;
    if (x_channels == c.in_channels) return EFL_OK;
    if (c.in_channels != c.groups || !outs.ids) return EFL_BAD_SHAPE;
    const efl_int64 multiplier = c.out_channels / c.groups;
    efl_int64 planes = 0;
    for (efl_int64 j = 0; j < outs.count; ++j) planes += j == 0 || outs.ids[j] / multiplier != outs.ids[j - 1] / multiplier;
    return x_channels == planes ? EFL_OK : EFL_BAD_SHAPE;
}

efl_status efl_conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy,
                                      efl_index outs, efl_index ins, float* dw) {
    EFL_CHECK(pointers({conv, x, dy, dw}));
    EFL_CHECK(geometry(*conv));
    EFL_CHECK(extents({x_channels}));
    EFL_CHECK(index(outs, conv->out_channels));
    EFL_CHECK(index(ins, x_channels));
    EFL_CHECK(grouped_planes(*conv, x_channels, outs, ins));
    return table().conv2d_grad_weight_f32(conv, x, x_channels, dy, outs, ins, dw);
}

// ---- linear

efl_status efl_linear_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch, efl_int64 in_features,
                                  efl_int64 out_features, float* y) {
    EFL_CHECK(extents({batch, in_features, out_features}));
    EFL_CHECK(pointers({x, weight, y}));
    return table().linear_forward_f32(x, weight, bias, batch, in_features, out_features, y);
}

efl_status efl_linear_grad_input_f32(const float* dy, const float* weight, efl_int64 batch, efl_int64 in_features,
                                     efl_int64 out_features, efl_index outs, efl_index ins, float* dx) {
    EFL_CHECK(extents({batch, in_features, out_features}));
    EFL_CHECK(pointers({dy, weight, dx}));
    EFL_CHECK(index(outs, out_features));
    EFL_CHECK(index(ins, in_features));
    return table().linear_grad_input_f32(dy, weight, batch, in_features, out_features, outs, ins, dx);
}

efl_status efl_linear_grad_weight_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features, efl_int64 out_features,
                                      efl_index outs, efl_index ins, float* dw) {
    EFL_CHECK(extents({batch, x_features, out_features}));
    EFL_CHECK(pointers({x, dy, dw}));
    EFL_CHECK(index(outs, out_features));
    EFL_CHECK(index(ins, x_features));
    return table().linear_grad_weight_f32(x, dy, batch, x_features, out_features, outs, ins, dw);
}

efl_status efl_linear_update_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features, efl_int64 in_features,
                                 efl_int64 out_features, efl_index outs, efl_index ins, efl_index cols, const efl_sgd* sgd, float* w) {
    EFL_CHECK(extents({batch, x_features, in_features, out_features}));
    EFL_CHECK(pointers({x, dy, sgd, w}));
    EFL_CHECK(index(outs, out_features));
    EFL_CHECK(index(ins, x_features));
    EFL_CHECK(index(cols, in_features));
    if ((ins.ids ? ins.count : x_features) != (cols.ids ? cols.count : in_features)) return EFL_BAD_SHAPE;
    if (sgd->momentum != 0 || sgd->pull != 0) return EFL_BAD_ARGUMENT;
    return table().linear_update_f32(x, dy, batch, x_features, in_features, out_features, outs, ins, cols, sgd, w);
}

efl_status efl_channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs, float* db) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, db}));
    EFL_CHECK(index(outs, channels));
    return table().channel_sum_f32(dy, batch, channels, inner, outs, db);
}

// ---- elementwise

efl_status efl_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({x, y}));
    return table().relu_forward_f32(x, planes, inner, y, bits);
}

efl_status efl_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                 efl_index channels_needed, float* dx) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, bits, dx}));
    EFL_CHECK(index(channels_needed, channels));
    return table().relu_backward_f32(dy, bits, batch, channels, inner, channels_needed, dx);
}

efl_status efl_add_f32(const float* a, const float* b, efl_int64 count, float* y) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({a, b, y}));
    return table().add_f32(a, b, count, y);
}

// ---- pooling

static efl_status plane_index(const efl_pool2d& pool, efl_int64 channels, efl_index channels_needed) {
    if (channels < 1 || pool.planes % channels) return EFL_BAD_SHAPE;
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
    EFL_CHECK(plane_index(*pool, channels, channels_needed));
    return table().maxpool_backward_f32(pool, dy, codes, channels, channels_needed, dx);
}

efl_status efl_avgpool_forward_f32(const efl_pool2d* pool, const float* x, float* y) {
    EFL_CHECK(pointers({pool, x, y}));
    EFL_CHECK(geometry(*pool));
    return table().avgpool_forward_f32(pool, x, y);
}

efl_status efl_avgpool_backward_f32(const efl_pool2d* pool, const float* dy, efl_int64 channels, efl_index channels_needed, float* dx) {
    EFL_CHECK(pointers({pool, dy, dx}));
    EFL_CHECK(geometry(*pool));
    EFL_CHECK(plane_index(*pool, channels, channels_needed));
    return table().avgpool_backward_f32(pool, dy, channels, channels_needed, dx);
}

// ---- loss and update

efl_status efl_softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes, float* dlogits,
                                double* loss, efl_int64* correct) {
    EFL_CHECK(extents({batch, classes}));
    EFL_CHECK(pointers({logits, labels, loss, correct}));
    EFL_CHECK(unsorted_ids(labels, batch, classes));
    return table().softmax_xent_f32(logits, labels, batch, classes, dlogits, loss, correct);
}

efl_status efl_sum_squares_f32(const float* x, efl_int64 count, double* total) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({x, total}));
    return table().sum_squares_f32(x, count, total);
}

efl_status efl_clip_scale(double total, double max_norm, float* scale) {
    EFL_CHECK(pointers({scale}));
    if (!(max_norm >= 0)) return EFL_BAD_ARGUMENT;
    const double ratio = max_norm / (std::sqrt(total) + 1e-6);
    *scale = ratio > 1 ? 1.0f : float(ratio);
    return EFL_OK;
}

efl_status efl_sgd_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols, const float* grad,
                       const efl_sgd* sgd, const float* scale, float* velocity, const float* centre, const float* linear) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, grad, sgd}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    if ((sgd->momentum != 0 && !velocity) || (sgd->pull != 0 && !centre)) return EFL_BAD_ARGUMENT;
    return table().sgd_f32(w, n_rows, n_cols, inner, rows, cols, grad, sgd, scale, velocity, centre, linear);
}

// ---- parameters

efl_status efl_take_axes_32(const void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                            void* values) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, values}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    return table().take_axes_32(w, n_rows, n_cols, inner, rows, cols, values);
}

efl_status efl_put_axes_32(void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                           const void* values) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, values}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    return table().put_axes_32(w, n_rows, n_cols, inner, rows, cols, values);
}

efl_status efl_take_flat_32(const void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, void* values) {
    EFL_CHECK(extents({size, count}));
    EFL_CHECK(pointers({w, ids, values}));
    EFL_CHECK(sorted_ids(ids, count, size));
    return table().take_flat_32(w, size, ids, count, values);
}

efl_status efl_put_flat_32(void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, const void* values) {
    EFL_CHECK(extents({size, count}));
    EFL_CHECK(pointers({w, ids, values}));
    EFL_CHECK(sorted_ids(ids, count, size));
    return table().put_flat_32(w, size, ids, count, values);
}

}  // extern "C"
