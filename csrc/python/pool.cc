// Arguments of the pools.
#include "call.h"

namespace efl {
namespace {

// y's shape if windows may be cut at the end, or if they may not.
Shape pooled(const efl_pool2d& p, const View& x, bool is_ceiled) {
    Shape result = x.shape;
    result[2] = pool_windows(p.height, p.kernel_h, p.stride_h, p.pad_h, is_ceiled);
    result[3] = pool_windows(p.width, p.kernel_w, p.stride_w, p.pad_w, is_ceiled);
    return result;
}

// kernel, stride and padding over the planes of `x`, whose cells are single or several side by side; `y` must have the
// output's shape, which says whether windows may be cut at the end.
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
    for (const bool is_ceiled : {true, false}) {
        p.ceil_mode = is_ceiled;
        a.expect_status(geometry(p), "(height, width, kernel 2, stride 2, padding 2) = " + text(numbers));
        if (y.shape == pooled(p, x, is_ceiled)) break;
    }
    a.expect_shape(y, pooled(p, x, p.ceil_mode));
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

efl_adaptive read_adaptive(Args& a, const View& x, const View& y) {
    a.expect_dims(x, 4, 4);
    a.expect_dims(y, 4, 4);
    a.expect_shape(y, {x.shape[0], x.shape[1], y.shape[2], y.shape[3]});
    for (const View* each : {&x, &y})
        if (each->shape[2] < 1 || each->shape[3] < 1)
            a.refuse(each->name, "shape " + text(each->shape), "planes of 1 or more cells");
    return {.planes = x.shape[0] * x.shape[1],
            .height = x.shape[2],
            .width = x.shape[3],
            .out_height = y.shape[2],
            .out_width = y.shape[3]};
}

Call adaptive_avgpool_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out);
    const efl_adaptive p = read_adaptive(a, x, y);
    return [=] { return efl_adaptive_avgpool_forward_f32(&p, x.in(), y.out()); };
}

Call adaptive_avgpool_backward(Args& a) {
    const View dy = a.f32("dy"), dx = a.f32("dx", Access::out);
    const efl_adaptive p = read_adaptive(a, dx, dy);
    const efl_index channels = a.index("channels");
    return [=] { return efl_adaptive_avgpool_backward_f32(&p, dy.in(), dx.shape[1], channels, dx.out()); };
}

}  // namespace

const std::vector<Op> pool_ops = {
    {.name = "maxpool_forward", .make = maxpool_forward},
    {.name = "maxpool_backward", .make = maxpool_backward},
    {.name = "maxpool_lanes_forward", .make = maxpool_lanes_forward},
    {.name = "maxpool_lanes_backward", .make = maxpool_lanes_backward},
    {.name = "avgpool_forward", .make = avgpool_forward},
    {.name = "avgpool_backward", .make = avgpool_backward},
    {.name = "adaptive_avgpool_forward", .make = adaptive_avgpool_forward},
    {.name = "adaptive_avgpool_backward", .make = adaptive_avgpool_backward},
};

}  // namespace efl
