// Linear layers and bias gradients: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_linear_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                  efl_int64 in_features, efl_int64 out_features, float* y) {
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

efl_status efl_linear_grad_weight_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                      efl_int64 out_features, efl_index outs, efl_index ins, float* dw) {
    EFL_CHECK(extents({batch, x_features, out_features}));
    EFL_CHECK(pointers({x, dy, dw}));
    EFL_CHECK(index(outs, out_features));
    EFL_CHECK(index(ins, x_features));
    return table().linear_grad_weight_f32(x, dy, batch, x_features, out_features, outs, ins, dw);
}

efl_status efl_linear_update_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                 efl_int64 in_features, efl_int64 out_features, efl_index outs, efl_index ins,
                                 efl_index cols, const efl_sgd* sgd, float* w) {
    EFL_CHECK(extents({batch, x_features, out_features}));
    EFL_CHECK(extents({in_features, out_features}));
    EFL_CHECK(pointers({x, dy, sgd, w}));
    EFL_CHECK(index(outs, out_features));
    EFL_CHECK(index(ins, x_features));
    EFL_CHECK(index(cols, in_features));
    if ((ins.ids ? ins.count : x_features) != (cols.ids ? cols.count : in_features)) return EFL_BAD_SHAPE;
    if (sgd->momentum != 0 || sgd->pull != 0) return EFL_BAD_ARGUMENT;
    return table().linear_update_f32(x, dy, batch, x_features, in_features, out_features, outs, ins, cols, sgd, w);
}

efl_status efl_channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs,
                               float* db) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, db}));
    EFL_CHECK(index(outs, channels));
    return table().channel_sum_f32(dy, batch, channels, inner, outs, db);
}
