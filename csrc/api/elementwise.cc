// Rectifiers, addition and multiplication: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({x, y}));
    return table().relu_forward_f32(x, planes, inner, y, bits);
}

efl_status efl_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                 efl_int64 inner, efl_index channels_needed, float* dx) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, bits, dx}));
    EFL_CHECK(index(channels_needed, channels));
    return table().relu_backward_f32(dy, bits, batch, channels, inner, channels_needed, dx);
}

efl_status efl_leaky_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float negative_slope, float* y,
                                      efl_uint8* bits) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({x, y}));
    return table().leaky_relu_forward_f32(x, planes, inner, negative_slope, y, bits);
}

efl_status efl_leaky_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                       efl_int64 inner, float negative_slope, efl_index channels_needed, float* dx) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, bits, dx}));
    EFL_CHECK(index(channels_needed, channels));
    return table().leaky_relu_backward_f32(dy, bits, batch, channels, inner, negative_slope, channels_needed, dx);
}

efl_status efl_add_f32(const float* a, const float* b, efl_int64 count, float* y) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({a, b, y}));
    return table().add_f32(a, b, count, y);
}

efl_status efl_relu6_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({x, y}));
    return table().relu6_forward_f32(x, planes, inner, y, bits);
}

efl_status efl_mul_f32(const float* a, const float* b, efl_int64 count, float* y) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({a, b, y}));
    return table().mul_f32(a, b, count, y);
}

efl_status efl_add_channels_f32(const float* offset, efl_int64 batch, efl_int64 channels, efl_int64 inner, float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({offset, y}));
    return table().add_channels_f32(offset, batch, channels, inner, y);
}

efl_status efl_scale_channels_f32(const float* x, const float* scale, efl_int64 planes, efl_int64 inner, float* y) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({x, scale, y}));
    return table().scale_channels_f32(x, scale, planes, inner, y);
}

efl_status efl_channel_dot_f32(const float* a, const float* b, efl_int64 planes, efl_int64 inner, float* out) {
    EFL_CHECK(extents({planes, inner}));
    EFL_CHECK(pointers({a, b, out}));
    return table().channel_dot_f32(a, b, planes, inner, out);
}
