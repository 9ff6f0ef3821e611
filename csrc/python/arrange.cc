// Arguments of what puts channels, planes and cells elsewhere.
#include "call.h"

namespace efl {
namespace {

// part and whole differ in their channels alone.
void expect_channels(const Args& a, const View& part, const View& whole) {
    a.expect_dims(part, 2, 8);
    a.expect_dims(whole, 2, 8);
    Shape expected = part.shape;
    expected[1] = whole.shape[1];
    a.expect_shape(whole, expected);
}

void expect_inside(const Args& a, const char* name, efl_int64 value, efl_int64 room) {
    if (value < 0 || value > room) a.refuse(name, "value " + std::to_string(value), "0 to " + std::to_string(room));
}

Call put_channels(Args& a) {
    const View x = a.f32("x");
    const efl_int64 first = a.integer("first");
    const View y = a.f32("y", Access::out);
    expect_channels(a, x, y);
    expect_inside(a, "first", first, y.shape[1] - x.shape[1]);
    return [=] { return efl_put_channels_f32(x.in(), x.shape[0], x.shape[1], x.inner(), first, y.shape[1], y.out()); };
}

Call get_channels(Args& a) {
    const View y = a.f32("y");
    const efl_int64 first = a.integer("first");
    const View x = a.f32("x", Access::out);
    expect_channels(a, x, y);
    expect_inside(a, "first", first, y.shape[1] - x.shape[1]);
    return [=] { return efl_get_channels_f32(y.in(), x.shape[0], y.shape[1], x.inner(), first, x.shape[1], x.out()); };
}

// small inside large, whose planes are as many.
efl_room read_room(Args& a, const View& small, const View& large, efl_int64 top, efl_int64 left) {
    a.expect_dims(small, 4, 4);
    a.expect_dims(large, 4, 4);
    a.expect_shape(large, {small.shape[0], small.shape[1], large.shape[2], large.shape[3]});
    expect_inside(a, "top", top, large.shape[2] - small.shape[2]);
    expect_inside(a, "left", left, large.shape[3] - small.shape[3]);
    return {small.shape[0] * small.shape[1], small.shape[2], small.shape[3], top, left, large.shape[2], large.shape[3]};
}

Call pad_planes(Args& a) {
    const View x = a.f32("x");
    const efl_int64 top = a.integer("top"), left = a.integer("left");
    const View y = a.f32("y", Access::out);
    const efl_room room = read_room(a, x, y, top, left);
    return [=] { return efl_pad_planes_f32(&room, x.in(), y.out()); };
}

Call crop_planes(Args& a) {
    const View y = a.f32("y");
    const efl_int64 top = a.integer("top"), left = a.integer("left");
    const View x = a.f32("x", Access::out);
    const efl_room room = read_room(a, x, y, top, left);
    return [=] { return efl_crop_planes_f32(&room, y.in(), x.out()); };
}

efl_scaling read_scaling(Args& a, const View& small, const View& large, efl_int64 down, efl_int64 right) {
    a.expect_dims(small, 4, 4);
    if (down < 1 || right < 1) a.refuse("scale", "value " + text({down, right}), "two integers, at least 1");
    a.expect_shape(large, {small.shape[0], small.shape[1], small.shape[2] * down, small.shape[3] * right});
    return {small.shape[0] * small.shape[1], small.shape[2], small.shape[3], down, right};
}

Call upsample_forward(Args& a) {
    const View x = a.f32("x");
    efl_int64 down, right;
    a.pair("scale", &down, &right);
    const View y = a.f32("y", Access::out);
    const efl_scaling scaling = read_scaling(a, x, y, down, right);
    return [=] { return efl_upsample_forward_f32(&scaling, x.in(), y.out()); };
}

Call upsample_backward(Args& a) {
    const View dy = a.f32("dy");
    efl_int64 down, right;
    a.pair("scale", &down, &right);
    const View dx = a.f32("dx", Access::out);
    const efl_scaling scaling = read_scaling(a, dx, dy, down, right);
    return [=] { return efl_upsample_backward_f32(&scaling, dy.in(), dx.out()); };
}

Call transpose(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out);
    a.expect_dims(x, 3, 8);
    Shape turned = x.shape;
    std::swap(turned[1], turned[2]);
    a.expect_shape(y, turned);
    return [=] { return efl_transpose_f32(x.in(), x.shape[0], x.shape[1], x.shape[2], product(x.shape, 3), y.out()); };
}

Call embedding_forward(Args& a) {
    const View ids = a.f32("ids"), weight = a.f32("weight"), y = a.f32("y", Access::out);
    a.expect_dims(ids, 2, 2);
    a.expect_dims(weight, 2, 2);
    a.expect_shape(y, {ids.shape[0], weight.shape[1], ids.shape[1]});
    return [=] {
        return efl_embedding_forward_f32(ids.in(), ids.shape[0], ids.shape[1], weight.in(), weight.shape[0],
                                         weight.shape[1], y.out());
    };
}

Call embedding_backward(Args& a) {
    const View dy = a.f32("dy"), ids = a.f32("ids"), dweight = a.f32("dweight", Access::out);
    const efl_int64 padding = a.integer("padding");
    const efl_index cols = a.index("cols");
    a.expect_dims(dy, 3, 3);
    a.expect_dims(dweight, 2, 2);
    a.expect_shape(ids, {dy.shape[0], dy.shape[2]});
    a.expect_shape(dweight, {dweight.shape[0], count(cols, dy.shape[1])});
    if (padding < -1 || padding >= dweight.shape[0])
        a.refuse("padding", "value " + std::to_string(padding), "-1 to " + std::to_string(dweight.shape[0] - 1));
    return [=] {
        return efl_embedding_backward_f32(dy.in(), ids.in(), dy.shape[0], dy.shape[1], dy.shape[2], dweight.shape[0],
                                          efl_int32(padding), cols, dweight.out());
    };
}

}  // namespace

const std::vector<Op> arrange_ops = {
    {.name = "put_channels", .make = put_channels},
    {.name = "get_channels", .make = get_channels},
    {.name = "pad_planes", .make = pad_planes},
    {.name = "crop_planes", .make = crop_planes},
    {.name = "upsample_forward", .make = upsample_forward},
    {.name = "upsample_backward", .make = upsample_backward},
    {.name = "transpose", .make = transpose},
    {.name = "embedding_forward", .make = embedding_forward},
    {.name = "embedding_backward", .make = embedding_backward},
};

}  // namespace efl
