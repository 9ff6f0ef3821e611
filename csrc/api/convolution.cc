// Convolution: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_conv2d_forward_f32(const efl_conv2d* conv, const float* x, const float* weight, const float* bias,
                                  float* y) {
    EFL_CHECK(pointers({conv, x, weight, y}));
    EFL_CHECK(geometry(*conv));
    return table().conv2d_forward_f32(conv, x, weight, bias, y);
}

efl_status efl_conv2d_grad_input_f32(const efl_conv2d* conv, const float* dy, const float* weight, efl_index outs,
                                     efl_index ins, float* dx) {
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
    for (efl_int64 j = 0; j < outs.count; ++j)
        planes += j == 0 || outs.ids[j] / multiplier != outs.ids[j - 1] / multiplier;
    return x_channels == planes ? EFL_OK : EFL_BAD_SHAPE;
}

efl_status efl_conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy,
                                      efl_index outs, efl_index ins, float* dw) {
    EFL_CHECK(pointers({conv, x, dy, dw}));
    EFL_CHECK(geometry(*conv));
    EFL_CHECK(products(*conv, x_channels));
    EFL_CHECK(index(outs, conv->out_channels));
    EFL_CHECK(index(ins, x_channels));
    EFL_CHECK(grouped_planes(*conv, x_channels, outs, ins));
    return table().conv2d_grad_weight_f32(conv, x, x_channels, dy, outs, ins, dw);
}
