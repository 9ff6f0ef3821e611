// Normalisation, alone and with ReLU and pooling: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_batchnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, float eps, float momentum,
                                     float* running_mean, float* running_var, float* y, float* xhat, float* inv_std) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, weight, bias, running_mean, running_var, y, xhat, inv_std}));
    if (batch * inner < 2) return EFL_BAD_SHAPE;
    return table().batchnorm_forward_f32(x, weight, bias, batch, channels, inner, eps, momentum, running_mean,
                                         running_var, y, xhat, inv_std);
}

efl_status efl_batchnorm_eval_f32(const float* x, const float* weight, const float* bias, const float* running_mean,
                                  const float* running_var, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                  float eps, float* y) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, weight, bias, running_mean, running_var, y}));
    return table().batchnorm_eval_f32(x, weight, bias, running_mean, running_var, batch, channels, inner, eps, y);
}

efl_status efl_batchnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                      efl_index outs, float* dx, float* dweight, float* dbias) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, xhat, weight, inv_std, dx, dweight, dbias}));
    EFL_CHECK(index(channels_needed, channels));
    EFL_CHECK(index(outs, channels));
    EFL_CHECK(members(outs, channels, channels_needed, 1));
    return table().batchnorm_backward_f32(dy, xhat, weight, inv_std, batch, channels, inner, channels_needed, outs, dx,
                                          dweight, dbias);
}

static efl_status groups_divide(efl_int64 batch, efl_int64 channels, efl_int64 groups) {
    return groups < 1 || channels % groups ? EFL_BAD_ARGUMENT : extents({batch, groups});
}

efl_status efl_groupnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, efl_int64 groups, float eps, float* y,
                                     float* xhat, float* inv_std) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, weight, bias, y, inv_std}));
    EFL_CHECK(groups_divide(batch, channels, groups));
    return table().groupnorm_forward_f32(x, weight, bias, batch, channels, inner, groups, eps, y, xhat, inv_std);
}

efl_status efl_groupnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_int64 groups,
                                      efl_index groups_needed, efl_index outs, float* dx, float* dweight,
                                      float* dbias) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, xhat, weight, inv_std, dx, dweight, dbias}));
    EFL_CHECK(groups_divide(batch, channels, groups));
    EFL_CHECK(index(groups_needed, groups));
    EFL_CHECK(index(outs, channels));
    EFL_CHECK(members(outs, channels, groups_needed, channels / groups));
    return table().groupnorm_backward_f32(dy, xhat, weight, inv_std, batch, channels, inner, groups, groups_needed,
                                          outs, dx, dweight, dbias);
}

// ---- normalisation, ReLU and pooling

static efl_status halving(efl_int64 height, efl_int64 width, efl_int32 halved) {
    return halved && (height < 2 || width < 2) ? EFL_BAD_SHAPE : EFL_OK;
}

efl_status efl_batchnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                          efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                          efl_int32 relu6, float eps, float momentum, float* running_mean,
                                          float* running_var, float* y, float* mean, float* inv_std) {
    EFL_CHECK(extents({batch, channels, height, width}));
    EFL_CHECK(pointers({x, weight, bias, running_mean, running_var, y, mean, inv_std}));
    EFL_CHECK(halving(height, width, halved));
    if (batch * height * width < 2) return EFL_BAD_SHAPE;
    return table().batchnorm_relu_forward_f32(x, weight, bias, batch, channels, height, width, halved, relu6, eps,
                                              momentum, running_mean, running_var, y, mean, inv_std);
}

efl_status efl_batchnorm_relu_eval_f32(const float* x, const float* weight, const float* bias,
                                       const float* running_mean, const float* running_var, efl_int64 batch,
                                       efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                       efl_int32 relu6, float eps, float* y) {
    EFL_CHECK(extents({batch, channels, height, width}));
    EFL_CHECK(pointers({x, weight, bias, running_mean, running_var, y}));
    EFL_CHECK(halving(height, width, halved));
    return table().batchnorm_relu_eval_f32(x, weight, bias, running_mean, running_var, batch, channels, height, width,
                                           halved, relu6, eps, y);
}

efl_status efl_batchnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                           const float* mean, const float* inv_std, efl_int64 batch, efl_int64 channels,
                                           efl_int64 height, efl_int64 width, efl_int32 halved, efl_int32 relu6,
                                           efl_index channels_needed, efl_index outs, float* dx, float* dweight,
                                           float* dbias) {
    EFL_CHECK(extents({batch, channels, height, width}));
    EFL_CHECK(pointers({dy, x, weight, bias, mean, inv_std, dx, dweight, dbias}));
    EFL_CHECK(halving(height, width, halved));
    EFL_CHECK(index(channels_needed, channels));
    EFL_CHECK(index(outs, channels));
    EFL_CHECK(members(outs, channels, channels_needed, 1));
    return table().batchnorm_relu_backward_f32(dy, x, weight, bias, mean, inv_std, batch, channels, height, width,
                                               halved, relu6, channels_needed, outs, dx, dweight, dbias);
}

efl_status efl_groupnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                          efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                          efl_int64 groups, float eps, float* y, float* mean, float* inv_std) {
    EFL_CHECK(extents({batch, channels, height, width}));
    EFL_CHECK(pointers({x, weight, bias, y, mean, inv_std}));
    EFL_CHECK(halving(height, width, halved));
    EFL_CHECK(groups_divide(batch, channels, groups));
    return table().groupnorm_relu_forward_f32(x, weight, bias, batch, channels, height, width, halved, groups, eps, y,
                                              mean, inv_std);
}

efl_status efl_groupnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                           const float* mean, const float* inv_std, efl_int64 batch, efl_int64 channels,
                                           efl_int64 height, efl_int64 width, efl_int32 halved, efl_int64 groups,
                                           efl_index groups_needed, efl_index outs, float* dx, float* dweight,
                                           float* dbias) {
    EFL_CHECK(extents({batch, channels, height, width}));
    EFL_CHECK(pointers({dy, x, weight, bias, mean, inv_std, dx, dweight, dbias}));
    EFL_CHECK(halving(height, width, halved));
    EFL_CHECK(groups_divide(batch, channels, groups));
    EFL_CHECK(index(groups_needed, groups));
    EFL_CHECK(index(outs, channels));
    EFL_CHECK(members(outs, channels, groups_needed, channels / groups));
    return table().groupnorm_relu_backward_f32(dy, x, weight, bias, mean, inv_std, batch, channels, height, width,
                                               halved, groups, groups_needed, outs, dx, dweight, dbias);
}

// ---- images side by side

static efl_status sound(const efl_norm_lanes& s) {
    EFL_CHECK(extents({s.batch, s.channels, s.cells, s.lanes}));
    if (s.lanes < 1) return EFL_BAD_ARGUMENT;
    return groups_divide(s.batch * s.lanes, s.channels, s.groups);
}

efl_status efl_groupnorm_lanes_forward_f32(const efl_norm_lanes* shape, const float* x, const float* weight,
                                           const float* bias, float eps, float* y, float* mean, float* inv_std) {
    EFL_CHECK(pointers({shape, x, weight, bias, y, mean, inv_std}));
    EFL_CHECK(sound(*shape));
    return table().groupnorm_lanes_forward_f32(shape, x, weight, bias, eps, y, mean, inv_std);
}

efl_status efl_groupnorm_lanes_backward_f32(const efl_norm_lanes* shape, const float* dy, const float* x,
                                            const float* weight, const float* bias, const float* mean,
                                            const float* inv_std, float* dx, float* dweight, float* dbias) {
    EFL_CHECK(pointers({shape, dy, x, weight, bias, mean, inv_std, dx}));
    EFL_CHECK(sound(*shape));
    if (!dweight != !dbias) return EFL_BAD_ARGUMENT;
    return table().groupnorm_lanes_backward_f32(shape, dy, x, weight, bias, mean, inv_std, dx, dweight, dbias);
}

efl_status efl_layernorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 channels, efl_int64 inner, float eps, float* y, float* xhat,
                                     float* inv_std) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({x, weight, bias, y, inv_std}));
    return table().layernorm_forward_f32(x, weight, bias, batch, channels, inner, eps, y, xhat, inv_std);
}

efl_status efl_layernorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                      efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs, float* dx,
                                      float* dweight, float* dbias) {
    EFL_CHECK(extents({batch, channels, inner}));
    EFL_CHECK(pointers({dy, xhat, weight, inv_std, dx, dweight, dbias}));
    EFL_CHECK(index(outs, channels));
    return table().layernorm_backward_f32(dy, xhat, weight, inv_std, batch, channels, inner, outs, dx, dweight, dbias);
}
