// Arguments of rectifiers, addition, multiplication and zeroing.
#include <cstring>

#include "call.h"

namespace efl {
namespace {

// Two arrays of planes of one shape, and a bit for each of their elements.
void expect_bits(const Args& a, const View& from, const View& to, const View& bits) {
    a.expect_dims(from, 2, 8);
    a.expect_shape(to, from.shape);
    a.expect_size(bits, from.shape[0] * from.shape[1] * ((from.inner() + 7) / 8));
}

Call relu_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out),
               bits = a.typed_or_none<efl_uint8>("bits", Access::out, "uint8");
    expect_bits(a, x, y, bits);
    const efl_int64 planes = x.shape[0] * x.shape[1], inner = x.inner();
    return [=] { return efl_relu_forward_f32(x.in(), planes, inner, y.out(), bits.as<efl_uint8>()); };
}

Call relu_backward(Args& a) {
    const View dy = a.f32("dy"), bits = a.typed<efl_uint8>("bits", Access::in, "uint8"), dx = a.f32("dx", Access::out);
    const efl_index channels = a.index("channels");
    expect_bits(a, dy, dx, bits);
    return [=] {
        return efl_relu_backward_f32(dy.in(), bits.as<efl_uint8>(), dy.shape[0], dy.shape[1], dy.inner(), channels,
                                     dx.out());
    };
}

Call leaky_relu_forward(Args& a) {
    const View x = a.f32("x");
    const float negative_slope = a.real("negative_slope");
    const View y = a.f32("y", Access::out), bits = a.typed_or_none<efl_uint8>("bits", Access::out, "uint8");
    expect_bits(a, x, y, bits);
    const efl_int64 planes = x.shape[0] * x.shape[1], inner = x.inner();
    return [=] {
        return efl_leaky_relu_forward_f32(x.in(), planes, inner, negative_slope, y.out(), bits.as<efl_uint8>());
    };
}

Call leaky_relu_backward(Args& a) {
    const View dy = a.f32("dy"), bits = a.typed<efl_uint8>("bits", Access::in, "uint8");
    const float negative_slope = a.real("negative_slope");
    const View dx = a.f32("dx", Access::out);
    const efl_index channels = a.index("channels");
    expect_bits(a, dy, dx, bits);
    return [=] {
        return efl_leaky_relu_backward_f32(dy.in(), bits.as<efl_uint8>(), dy.shape[0], dy.shape[1], dy.inner(),
                                           negative_slope, channels, dx.out());
    };
}

Call add(Args& a) {
    const View x = a.f32("a"), z = a.f32("b"), y = a.f32("y", Access::out);
    a.expect_shape(z, x.shape);
    a.expect_shape(y, x.shape);
    return [=] { return efl_add_f32(x.in(), z.in(), x.size(), y.out()); };
}

Call relu6_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out),
               bits = a.typed_or_none<efl_uint8>("bits", Access::out, "uint8");
    expect_bits(a, x, y, bits);
    const efl_int64 planes = x.shape[0] * x.shape[1], inner = x.inner();
    return [=] { return efl_relu6_forward_f32(x.in(), planes, inner, y.out(), bits.as<efl_uint8>()); };
}

Call mul(Args& a) {
    const View x = a.f32("a"), z = a.f32("b"), y = a.f32("y", Access::out);
    a.expect_shape(z, x.shape);
    a.expect_shape(y, x.shape);
    return [=] { return efl_mul_f32(x.in(), z.in(), x.size(), y.out()); };
}

Call add_channels(Args& a) {
    const View y = a.f32("y", Access::out), offset = a.f32("offset");
    a.expect_dims(y, 2, 8);
    a.expect_shape(offset, {y.shape[1]});
    return [=] { return efl_add_channels_f32(offset.in(), y.shape[0], y.shape[1], y.inner(), y.out()); };
}

Call scale_channels(Args& a) {
    const View x = a.f32("x"), scale = a.f32("scale"), y = a.f32("y", Access::out);
    a.expect_dims(x, 2, 8);
    a.expect_shape(scale, {x.shape[0], x.shape[1]});
    a.expect_shape(y, x.shape);
    const efl_int64 planes = x.shape[0] * x.shape[1];
    return [=] { return efl_scale_channels_f32(x.in(), scale.in(), planes, x.inner(), y.out()); };
}

Call channel_dot(Args& a) {
    const View x = a.f32("a"), z = a.f32("b"), out = a.f32("out", Access::out);
    a.expect_dims(x, 2, 8);
    a.expect_shape(z, x.shape);
    a.expect_shape(out, {x.shape[0], x.shape[1]});
    const efl_int64 planes = x.shape[0] * x.shape[1];
    return [=] { return efl_channel_dot_f32(x.in(), z.in(), planes, x.inner(), out.out()); };
}

Call fill_zero(Args& a) {
    const View x = a.memory("x", Access::out);
    return [=] {
        std::memset(x.data, 0, size_t(x.size()));
        return EFL_OK;
    };
}

}  // namespace

const std::vector<Op> elementwise_ops = {
    {.name = "relu_forward", .make = relu_forward},
    {.name = "relu_backward", .make = relu_backward},
    {.name = "leaky_relu_forward", .make = leaky_relu_forward},
    {.name = "leaky_relu_backward", .make = leaky_relu_backward},
    {.name = "relu6_forward", .make = relu6_forward},
    {.name = "add", .make = add},
    {.name = "mul", .make = mul},
    {.name = "add_channels", .make = add_channels},
    {.name = "scale_channels", .make = scale_channels},
    {.name = "channel_dot", .make = channel_dot},
    {.name = "fill_zero", .make = fill_zero},
};

}  // namespace efl
