// Smooth activations and PReLU: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

static efl_status settings(efl_int32 kind, float beta) {
    return kind >= 0 && kind < 8 && beta > 0 ? EFL_OK : EFL_BAD_ARGUMENT;
}

static efl_status one_or_each(efl_int64 weights, efl_int64 channels) {
    return weights == 1 || weights == channels ? EFL_OK : EFL_BAD_SHAPE;
}

efl_status efl_activation_forward_f32(const float* x, efl_int64 count, efl_int32 kind, float beta, float threshold,
                                      float* y) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({x, y}));
    EFL_CHECK(settings(kind, beta));
    return table().activation_forward_f32(x, count, kind, beta, threshold, y);
}

efl_status efl_activation_backward_f32(const float* dy, const float* saved, efl_int64 batch, efl_int64 channels,
                                       efl_int64 inner, efl_int32 kind, float beta, float threshold,
                                       efl_index channels_needed, float* dx) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, saved, dx}));
    EFL_CHECK(settings(kind, beta));
    EFL_CHECK(index(channels_needed, channels));
    return table().activation_backward_f32(dy, saved, batch, channels, inner, kind, beta, threshold, channels_needed,
                                           dx);
}

efl_status efl_prelu_forward_f32(const float* x, const float* weight, efl_int64 weights, efl_int64 batch,
                                 efl_int64 channels, efl_int64 inner, float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, weight, y}));
    EFL_CHECK(one_or_each(weights, channels));
    return table().prelu_forward_f32(x, weight, weights, batch, channels, inner, y);
}

efl_status efl_prelu_backward_f32(const float* dy, const float* x, const float* weight, efl_int64 weights,
                                  efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                  efl_index outs, float* dx, float* dweight) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, x, weight, dx, dweight}));
    EFL_CHECK(one_or_each(weights, channels));
    EFL_CHECK(index(channels_needed, channels));
    EFL_CHECK(index(outs, weights));
    return table().prelu_backward_f32(dy, x, weight, weights, batch, channels, inner, channels_needed, outs, dx,
                                      dweight);
}
