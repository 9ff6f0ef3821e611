// Arguments of the pools.
#include "call.h"

namespace efl {
namespace {

// kernel, stride and padding over the planes of `x`, whose cells are single or several side by side; `y` must have the
// output's shape.
efl_pool2d read_pool(Args& a, const View& x, const View& y, size_t dims = 4) {
    a.expect_dims(x, dims, dims);
    efl_pool2d p{};
    p.planes = x.shape[0] * x.shape[1];
    p.height = x.shape[2];
    p.width = x.shape[3];
    a.pair("kernel", &p.kernel_h, &p.kernel_w);
    a.pair("stride", &p.stride_h, &p.stride_w);
    a.pair("padding", &p.pad_h, &p.pad_w);
    const Shape numbers{p.height, p.width, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w};
    a.expect_status(geometry(p), "(height, width, kernel 2, stride 2, padding 2) = " + text(numbers));
    Shape result = x.shape;
    result[2] = windows(p.height, p.kernel_h, p.stride_h, p.pad_h, 1);
    result[3] = windows(p.width, p.kernel_w, p.stride_w, p.pad_w, 1);
    a.expect_shape(y, result);
    return p;
}

// A max pool numbers the cells of its window by one byte.
void countable(const Args& a, const efl_pool2d& p) {
    if (codes_fit(p) != EFL_OK) a.refuse("kernel", "value " + text({p.kernel_h, p.kernel_w}), "at most 255 cells");
}

Call maxpool_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out),
               codes = a.typed_or_none<efl_uint8>("codes", Access::out, "uint8");
    const efl_pool2d p = read_pool(a, x, y);
    countable(a, p);
    a.expect_size(codes, y.size());
    return [=] { return efl_maxpool_forward_f32(&p, x.in(), y.out(), codes.as<efl_uint8>()); };
}

Call maxpool_backward(Args& a) {
    const View dy = a.f32("dy"), codes = a.typed<efl_uint8>("codes", Access::in, "uint8"),
               dx = a.f32("dx", Access::out);
    const efl_pool2d p = read_pool(a, dx, dy);
    countable(a, p);
    const efl_index channels = a.index("channels");
    a.expect_size(codes, dy.size());
    return
        [=] { return efl_maxpool_backward_f32(&p, dy.in(), codes.as<efl_uint8>(), dx.shape[1], channels, dx.out()); };
}

efl_int64 read_side_by_side(Args& a, const View& x) {
    if (x.shape[4] < 1) a.refuse(x.name, "shape " + text(x.shape), "1 or more images side by side");
    return x.shape[4];
}

Call maxpool_lanes_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out),
               codes = a.typed_or_none<efl_uint8>("codes", Access::out, "uint8");
    const efl_pool2d p = read_pool(a, x, y, 5);
    countable(a, p);
    const efl_int64 lanes = read_side_by_side(a, x);
    a.expect_size(codes, y.size());
    return [=] { return efl_maxpool_lanes_forward_f32(&p, lanes, x.in(), y.out(), codes.as<efl_uint8>()); };
}

Call maxpool_lanes_backward(Args& a) {
    const View dy = a.f32("dy"), codes = a.typed<efl_uint8>("codes", Access::in, "uint8"),
               dx = a.f32("dx", Access::out);
    const efl_pool2d p = read_pool(a, dx, dy, 5);
    countable(a, p);
    const efl_int64 lanes = read_side_by_side(a, dx);
    a.expect_size(codes, dy.size());
    return [=] { return efl_maxpool_lanes_backward_f32(&p, lanes, dy.in(), codes.as<efl_uint8>(), dx.out()); };
}

Call avgpool_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out);
    efl_pool2d p = read_pool(a, x, y);
    p.count_include_pad = a.integer("count_include_pad") != 0;
    return [=] { return efl_avgpool_forward_f32(&p, x.in(), y.out()); };
}

Call avgpool_backward(Args& a) {
    const View dy = a.f32("dy"), dx = a.f32("dx", Access::out);
    efl_pool2d p = read_pool(a, dx, dy);
    p.count_include_pad = a.integer("count_include_pad") != 0;
    const efl_index channels = a.index("channels");
    return [=] { return efl_avgpool_backward_f32(&p, dy.in(), dx.shape[1], channels, dx.out()); };
}

}  // namespace

const std::vector<Op> pool_ops = {
    {.name = "maxpool_forward", .make = maxpool_forward},
    {.name = "maxpool_backward", .make = maxpool_backward},
    {.name = "maxpool_lanes_forward", .make = maxpool_lanes_forward},
    {.name = "maxpool_lanes_backward", .make = maxpool_lanes_backward},
    {.name = "avgpool_forward", .make = avgpool_forward},
    {.name = "avgpool_backward", .make = avgpool_backward},
};

}  // namespace efl
