// Arguments of the masked convolutions.
#include <stdexcept>

#include "call.h"

namespace efl::reading {

static void read_masked_window(Args& a, efl_conv2d* c) {
    a.pair("stride", &c->stride_h, &c->stride_w);
    a.pair("padding", &c->pad_h, &c->pad_w);
    a.pair("dilation", &c->dil_h, &c->dil_w);
    const std::vector<efl_int64> numbers{c->height,   c->width, c->kernel_h, c->kernel_w, c->stride_h,
                                         c->stride_w, c->pad_h, c->pad_w,    c->dil_h,    c->dil_w};
    a.expect_status(geometry(*c), "(height, width, kernel 2, stride 2, padding 2, dilation 2) = " + listed(numbers));
}

// Of x (or dx) and y (or dy); read_masked_layer gives the rest.
static efl_conv2d extents_of_masked(Args& a, const View& x, const View& y) {
    a.expect_dims(x, 4, 4);
    a.expect_dims(y, 4, 4);
    efl_conv2d c = {};
    c.batch = x.shape[0], c.in_channels = x.shape[1], c.height = x.shape[2], c.width = x.shape[3];
    c.out_channels = y.shape[1], c.groups = 1;
    return c;
}

static efl_conv2d read_masked_layer(Args& a, const View& x, const View& y) {
    efl_conv2d c = extents_of_masked(a, x, y);
    a.pair("kernel", &c.kernel_h, &c.kernel_w);
    read_masked_window(a, &c);
    a.expect_shape(y, {c.batch, c.out_channels, windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
                       windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w)});
    return c;
}

// An array of images lies 1 by 1, or as many side by side as a vector of the instruction set holds.
static efl_int64 read_lanes(Args& a, const char* name, const efl_conv2d& c) {
    const efl_int64 lanes = a.integer(name), word = efl_sparse_conv2d_lanes();
    if ((lanes != 1 && lanes != word) || c.batch % lanes)
        a.refuse(name, "value " + std::to_string(lanes),
                 "1 or " + std::to_string(word) + ", a divisor of " + std::to_string(c.batch));
    return lanes;
}

static void expect_words(Args& a, const View& structure, const efl_conv2d& c, efl_int64 count, bool transposed) {
    const efl_int64 words = efl_sparse_conv2d_words(&c, count, transposed);
    if (words < 0)
        a.refuse(structure.name,
                 std::to_string(count) + " weights of " + std::to_string(c.in_channels) + " by " +
                     std::to_string(c.out_channels) + " channels",
                 "a layer and a count that a structure can hold (see csrc/edgefl.h)");
    a.expect_shape(structure, {words});
}

static View words_of(Args& a, const char* name, Access access) { return a.typed(name, access, Type::uint32); }

Call sparse_conv2d_build(Args& a) {
    const View mask = a.typed("mask", Access::in, Type::uint8);
    const View structure = words_of(a, "structure", Access::out), order = words_of(a, "order", Access::out);
    const View structure_t = words_of(a, "structure_t", Access::out), order_t = words_of(a, "order_t", Access::out);
    a.expect_dims(mask, 4, 4);
    a.expect_dims(order, 1, 1);
    efl_conv2d c = {};
    c.out_channels = mask.shape[0], c.in_channels = mask.shape[1], c.kernel_h = mask.shape[2];
    c.kernel_w = mask.shape[3], c.groups = 1;
    a.pair("size", &c.height, &c.width);
    read_masked_window(a, &c);
    const efl_int64 count = order.size();
    a.expect_shape(order_t, {count});
    expect_words(a, structure, c, count, false);
    expect_words(a, structure_t, c, count, true);
    return [=] {
        const efl_status status = efl_sparse_conv2d_build(
            &c, mask.as<efl_uint8>(), count, structure.as<efl_uint32>(), structure.size(), order.as<efl_uint32>(),
            structure_t.as<efl_uint32>(), structure_t.size(), order_t.as<efl_uint32>());
        if (status == EFL_BAD_ARGUMENT)
            throw std::invalid_argument("sparse_conv2d_build: order has shape " + text(order.shape) +
                                        "; expected one slot for each byte of mask that is not 0");
        return status;
    };
}

Call sparse_conv2d_forward(Args& a) {
    const View x = a.f32("x"), structure = words_of(a, "structure", Access::in), values = a.f32("values");
    const View bias = a.f32_or_none("bias"), y = a.f32("y", Access::out);
    a.expect_dims(values, 1, 1);
    const efl_conv2d c = read_masked_layer(a, x, y);
    const efl_int64 x_lanes = read_lanes(a, "x_lanes", c), y_lanes = read_lanes(a, "y_lanes", c);
    a.expect_shape(bias, {c.out_channels});
    expect_words(a, structure, c, values.size(), false);
    return [=] {
        return efl_sparse_conv2d_forward_f32(&c, structure.as<efl_uint32>(), structure.size(), values.in(),
                                             values.size(), x.in(), bias.in(), y.out(), x_lanes, y_lanes);
    };
}

Call sparse_conv2d_grad_input(Args& a) {
    const View dy = a.f32("dy"), structure_t = words_of(a, "structure_t", Access::in), values_t = a.f32("values_t");
    const View dx = a.f32("dx", Access::out);
    a.expect_dims(values_t, 1, 1);
    const efl_conv2d c = read_masked_layer(a, dx, dy);
    const efl_int64 x_lanes = read_lanes(a, "x_lanes", c), y_lanes = read_lanes(a, "y_lanes", c);
    expect_words(a, structure_t, c, values_t.size(), true);
    return [=] {
        return efl_sparse_conv2d_grad_input_f32(&c, structure_t.as<efl_uint32>(), structure_t.size(), values_t.in(),
                                                values_t.size(), dy.in(), dx.out(), x_lanes, y_lanes);
    };
}

Call sparse_conv2d_grad_weight(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), structure = words_of(a, "structure", Access::in);
    const View gradients = a.f32("gradients", Access::out);
    a.expect_dims(gradients, 1, 1);
    const efl_conv2d c = read_masked_layer(a, x, dy);
    const efl_int64 x_lanes = read_lanes(a, "x_lanes", c), y_lanes = read_lanes(a, "y_lanes", c);
    expect_words(a, structure, c, gradients.size(), false);
    return [=] {
        return efl_sparse_conv2d_grad_weight_f32(&c, structure.as<efl_uint32>(), structure.size(), x.in(), dy.in(),
                                                 gradients.out(), gradients.size(), x_lanes, y_lanes);
    };
}

}  // namespace efl::reading
