// Arguments of the convolutions.
#include <stdexcept>

#include "call.h"

namespace efl::reading {

static void four(const Args& a, std::initializer_list<const View*> views) {
    for (const View* view : views) a.expect_dims(*view, 4, 4);
}

// The extents that the arrays of a convolution give: x (or dx), the kernel (weight or dw). read_window gives the rest.
static efl_conv2d extents_of(const View& x, efl_int64 in_channels, const View& kernel, efl_int64 out_channels) {
    return {.batch = x.shape[0],
            .in_channels = in_channels,
            .height = x.shape[2],
            .width = x.shape[3],
            .out_channels = out_channels,
            .kernel_h = kernel.shape[2],
            .kernel_w = kernel.shape[3],
            .stride_h = 0,
            .stride_w = 0,
            .pad_h = 0,
            .pad_w = 0,
            .dil_h = 0,
            .dil_w = 0,
            .groups = 0};
}

static void read_window(Args& a, efl_conv2d* c) {
    a.pair("stride", &c->stride_h, &c->stride_w);
    a.pair("padding", &c->pad_h, &c->pad_w);
    a.pair("dilation", &c->dil_h, &c->dil_w);
    c->groups = a.integer("groups");
    const std::vector<efl_int64> numbers{c->height, c->width, c->kernel_h, c->kernel_w, c->stride_h, c->stride_w,
                                         c->pad_h,  c->pad_w, c->dil_h,    c->dil_w,    c->groups};
    a.expect_status(geometry(*c),
                    "(height, width, kernel 2, stride 2, padding 2, dilation 2, groups) = " + listed(numbers));
}

static Shape output_shape(const efl_conv2d& c) {
    return {c.batch, c.out_channels, windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
            windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w)};
}

Call conv2d_grad_weight(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), dw = a.f32("dw", Access::out);
    four(a, {&x, &dy, &dw});
    efl_conv2d c = extents_of(x, 0, dw, 0);  // in_channels is the last argument: groups are checked then
    read_window(a, &c);
    const efl_index outs = a.index("outs"), ins = a.index("ins");
    c.in_channels = a.integer("in_channels");
    c.out_channels = dy.shape[1];
    a.expect_status(geometry(c),
                    "(in_channels, out_channels, groups) = " + text({c.in_channels, c.out_channels, c.groups}));
    a.expect_shape(dy, output_shape(c));
    if (c.groups > 1 && ins.ids) a.refuse("ins", "ids", "None, because groups is " + std::to_string(c.groups));
    const efl_int64 columns = c.groups == 1 ? selected(ins, x.shape[1]) : c.in_channels / c.groups;
    a.expect_shape(dw, {selected(outs, c.out_channels), columns, c.kernel_h, c.kernel_w});
    return [=] {
        const efl_status status = efl_conv2d_grad_weight_f32(&c, x.in(), x.shape[1], dy.in(), outs, ins, dw.out());
        if (status == EFL_BAD_SHAPE)
            throw std::invalid_argument("conv2d_grad_weight: x has shape " + text(x.shape) + "; expected " +
                                        std::to_string(c.in_channels) + " planes, or one for each group of outs");
        return status;
    };
}

}  // namespace efl::reading
