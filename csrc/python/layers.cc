// Arguments of convolution and linear layers.
#include <cstring>
#include <stdexcept>

#include "call.h"

namespace efl {
namespace {

void four(const Args& a, std::initializer_list<const View*> views) {
    for (const View* view : views) a.expect_dims(*view, 4, 4);
}

// The extents that the arrays of a convolution give: x (or dx), the kernel (weight or dw).
efl_conv2d extents_of(const View& x, efl_int64 in_channels, const View& kernel, efl_int64 out_channels) {
    efl_conv2d c{};
    c.batch = x.shape[0];
    c.in_channels = in_channels;
    c.height = x.shape[2];
    c.width = x.shape[3];
    c.out_channels = out_channels;
    c.kernel_h = kernel.shape[2];
    c.kernel_w = kernel.shape[3];
    return c;
}

void read_window(Args& a, efl_conv2d* c) {
    a.pair("stride", &c->stride_h, &c->stride_w);
    a.pair("padding", &c->pad_h, &c->pad_w);
    a.pair("dilation", &c->dil_h, &c->dil_w);
    c->groups = a.integer("groups");
    const Shape numbers{c->height, c->width, c->kernel_h, c->kernel_w, c->stride_h, c->stride_w,
                        c->pad_h,  c->pad_w, c->dil_h,    c->dil_w,    c->groups};
    a.expect_status(geometry(*c), "(height, width, kernel 2, stride 2, padding 2, dilation 2, groups) = " + text(numbers));
}

Shape output_shape(const efl_conv2d& c) {
    return {c.batch, c.out_channels, windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
            windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w)};
}

Call conv2d_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32_or_none("bias"), y = a.f32("y", Access::out);
    four(a, {&x, &w, &y});
    efl_conv2d c = extents_of(x, x.shape[1], w, w.shape[0]);
    read_window(a, &c);
    a.expect_shape(w, {c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w});
    a.expect_shape(bias, {c.out_channels});
    a.expect_shape(y, output_shape(c));
    return [=] { return efl_conv2d_forward_f32(&c, x.in(), w.in(), bias.in(), y.out()); };
}

Call conv2d_grad_input(Args& a) {
    const View dy = a.f32("dy"), w = a.f32("weight"), dx = a.f32("dx", Access::out);
    four(a, {&dy, &w, &dx});
    efl_conv2d c = extents_of(dx, dx.shape[1], w, w.shape[0]);
    read_window(a, &c);
    const efl_index outs = a.index("outs"), ins = a.index("ins");
    a.expect_shape(w, {c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w});
    a.expect_shape(dy, output_shape(c));
    return [=] { return efl_conv2d_grad_input_f32(&c, dy.in(), w.in(), outs, ins, dx.out()); };
}

Call conv2d_grad_weight(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), dw = a.f32("dw", Access::out);
    four(a, {&x, &dy, &dw});
    efl_conv2d c = extents_of(x, 0, dw, 0);  // in_channels is the last argument: groups are checked then
    read_window(a, &c);
    const efl_index outs = a.index("outs"), ins = a.index("ins");
    c.in_channels = a.integer("in_channels");
    c.out_channels = dy.shape[1];
    a.expect_status(geometry(c), "(in_channels, out_channels, groups) = " + text({c.in_channels, c.out_channels, c.groups}));
    a.expect_shape(dy, output_shape(c));
    if (c.groups > 1 && ins.ids) a.refuse("ins", "ids", "None, because groups is " + std::to_string(c.groups));
    const efl_int64 columns = c.groups == 1 ? count(ins, x.shape[1]) : c.in_channels / c.groups;
    a.expect_shape(dw, {count(outs, c.out_channels), columns, c.kernel_h, c.kernel_w});
    return [=] {
        const efl_status status = efl_conv2d_grad_weight_f32(&c, x.in(), x.shape[1], dy.in(), outs, ins, dw.out());
        if (status == EFL_BAD_SHAPE)
            throw std::invalid_argument("conv2d_grad_weight: x has shape " + text(x.shape) + "; expected " +
                                        std::to_string(c.in_channels) + " planes, or one for each group of outs");
        return status;
    };
}

Call linear_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32_or_none("bias"), y = a.f32("y", Access::out);
    a.expect_dims(x, 2, 2);
    a.expect_dims(w, 2, 2);
    const efl_int64 batch = x.shape[0], in = x.shape[1], out = w.shape[0];
    a.expect_shape(w, {out, in});
    a.expect_shape(bias, {out});
    a.expect_shape(y, {batch, out});
    return [=] { return efl_linear_forward_f32(x.in(), w.in(), bias.in(), batch, in, out, y.out()); };
}

Call linear_grad_input(Args& a) {
    const View dy = a.f32("dy"), w = a.f32("weight"), dx = a.f32("dx", Access::out);
    const efl_index outs = a.index("outs"), ins = a.index("ins");
    a.expect_dims(dy, 2, 2);
    a.expect_dims(w, 2, 2);
    const efl_int64 batch = dy.shape[0], in = w.shape[1], out = w.shape[0];
    a.expect_shape(dy, {batch, out});
    a.expect_shape(dx, {batch, in});
    return [=] { return efl_linear_grad_input_f32(dy.in(), w.in(), batch, in, out, outs, ins, dx.out()); };
}

Call linear_grad_weight(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), dw = a.f32("dw", Access::out);
    const efl_index outs = a.index("outs"), ins = a.index("ins");
    a.expect_dims(x, 2, 2);
    a.expect_dims(dy, 2, 2);
    const efl_int64 batch = x.shape[0], in = x.shape[1], out = dy.shape[1];
    a.expect_shape(dy, {batch, out});
    a.expect_shape(dw, {count(outs, out), count(ins, in)});
    return [=] { return efl_linear_grad_weight_f32(x.in(), dy.in(), batch, in, out, outs, ins, dw.out()); };
}

// hyper is read at every run, as sgd does.
Call linear_update(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), w = a.f32("w", Access::out), hyper = a.f32("hyper");
    const efl_index outs = a.index("outs"), ins = a.index("ins"), cols = a.index("cols");
    for (const View* view : {&x, &dy, &w}) a.expect_dims(*view, 2, 2);
    const efl_int64 batch = x.shape[0], out = w.shape[0], in = w.shape[1];
    a.expect_shape(dy, {batch, out});
    a.expect_shape(hyper, {4});
    if (count(ins, x.shape[1]) != count(cols, in))
        a.refuse("cols", std::to_string(count(cols, in)) + " columns", std::to_string(count(ins, x.shape[1])) + ", as many as ins");
    return [=] {
        efl_sgd values;
        std::memcpy(&values, hyper.data, sizeof values);
        if (values.momentum != 0 || values.pull != 0)
            throw std::invalid_argument("linear_update: hyper has momentum " + std::to_string(values.momentum) + " and pull " +
                                        std::to_string(values.pull) + "; expected 0");
        return efl_linear_update_f32(x.in(), dy.in(), batch, x.shape[1], in, out, outs, ins, cols, &values, w.out());
    };
}

Call channel_sum(Args& a) {
    const View dy = a.f32("dy"), out = a.f32("out", Access::out);
    const efl_index outs = a.index("outs");
    a.expect_dims(dy, 2, 8);
    a.expect_shape(out, {count(outs, dy.shape[1])});
    return [=] { return efl_channel_sum_f32(dy.in(), dy.shape[0], dy.shape[1], dy.inner(), outs, out.out()); };
}

}  // namespace

const std::vector<Op> layer_ops = {
    {"conv2d_forward", conv2d_forward},         {"conv2d_grad_input", conv2d_grad_input}, {"conv2d_grad_weight", conv2d_grad_weight},
    {"linear_forward", linear_forward},         {"linear_grad_input", linear_grad_input}, {"linear_grad_weight", linear_grad_weight},
    {"linear_update", linear_update},           {"channel_sum", channel_sum},
};

}  // namespace efl
