// Arguments of the operations that pick a batch.
#include "call.h"

namespace efl {
namespace {

Call gather_rows(Args& a) {
    bool bytes = false;
    const View src = a.pixels("src", &bytes), ids = a.ids("index");
    const float scale = a.real("scale"), shift = a.real("shift");
    const View out = a.f32("out", Access::out);
    a.expect_dims(src, 1, 8);
    Shape shape = src.shape;
    shape[0] = ids.size();
    a.expect_shape(out, shape);
    const efl_int64 rows = src.shape[0], width = product(src.shape, 1), count = ids.size();
    const efl_int32* const index = ids.as<efl_int32>();
    if (bytes)
        return
            [=] { return efl_gather_rows_u8(src.as<efl_uint8>(), rows, width, index, count, scale, shift, out.out()); };
    return [=] { return efl_gather_rows_f32(src.in(), rows, width, index, count, scale, shift, out.out()); };
}

Call gather_labels(Args& a) {
    const View src = a.typed<efl_int32>("src", Access::in, "int32"), ids = a.ids("index"),
               out = a.typed<efl_int32>("out", Access::out, "int32");
    a.expect_dims(src, 1, 1);
    a.expect_shape(out, ids.shape);
    return [=] {
        return efl_gather_labels(src.as<efl_int32>(), src.size(), ids.as<efl_int32>(), ids.size(), out.as<efl_int32>());
    };
}

Call take_channels(Args& a) {
    const View x = a.f32("x");
    const efl_index channels = a.index("channels");
    const View out = a.f32("out", Access::out);
    a.expect_dims(x, 2, 8);
    Shape shape = x.shape;
    if (channels.ids) shape[1] = channels.count;
    a.expect_shape(out, shape);
    return [=] { return efl_take_channels_f32(x.in(), x.shape[0], x.shape[1], x.inner(), channels, out.out()); };
}

efl_int64 read_lanes(Args& a, efl_int64 batch) {
    const efl_int64 lanes = a.integer("lanes");
    if (lanes < 1 || batch % lanes)
        a.refuse("lanes", "value " + std::to_string(lanes), "a divisor of " + std::to_string(batch));
    return lanes;
}

Call to_lanes(Args& a) {
    const View x = a.f32("x");
    a.expect_dims(x, 1, 8);
    const efl_int64 batch = x.shape[0], inner = product(x.shape, 1), lanes = read_lanes(a, batch);
    const View y = a.f32("y", Access::out);
    a.expect_shape(y, x.shape);
    return [=] { return efl_to_lanes_f32(x.in(), batch, inner, lanes, y.out()); };
}

Call from_lanes(Args& a) {
    const View y = a.f32("y");
    a.expect_dims(y, 1, 8);
    const efl_int64 batch = y.shape[0], inner = product(y.shape, 1), lanes = read_lanes(a, batch);
    const View x = a.f32("x", Access::out);
    a.expect_shape(x, y.shape);
    return [=] { return efl_from_lanes_f32(y.in(), batch, inner, lanes, x.out()); };
}

}  // namespace

const std::vector<Op> batch_ops = {
    {.name = "gather_rows", .make = gather_rows},     {.name = "gather_labels", .make = gather_labels},
    {.name = "take_channels", .make = take_channels}, {.name = "to_lanes", .make = to_lanes},
    {.name = "from_lanes", .make = from_lanes},
};

}  // namespace efl
