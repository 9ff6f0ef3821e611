// Arguments of the normalisations, alone and with ReLU and pooling.
#include "call.h"

namespace efl {
namespace {

efl_int64 read_groups(Args& a, efl_int64 channels) {
    const efl_int64 groups = a.integer("groups");
    if (groups < 1 || channels % groups)
        a.refuse("groups", "value " + std::to_string(groups), "a divisor of " + std::to_string(channels));
    return groups;
}

void per_channel(const Args& a, efl_int64 channels, std::initializer_list<const View*> views) {
    for (const View* view : views) a.expect_shape(*view, {channels});
}

Call batchnorm_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("running_mean", Access::out),
               var = a.f32("running_var", Access::out), y = a.f32("y", Access::out), xhat = a.f32("xhat", Access::out),
               inv_std = a.f32("inv_std", Access::out);
    const float eps = a.real("eps"), momentum = a.real("momentum");
    a.expect_dims(x, 2, 8);
    if (x.shape[0] * x.inner() < 2) a.refuse("x", "shape " + text(x.shape), "at least 2 values per channel");
    per_channel(a, x.shape[1], {&w, &bias, &mean, &var, &inv_std});
    a.expect_shape(y, x.shape);
    a.expect_shape(xhat, x.shape);
    return [=] {
        return efl_batchnorm_forward_f32(x.in(), w.in(), bias.in(), x.shape[0], x.shape[1], x.inner(), eps, momentum,
                                         mean.out(), var.out(), y.out(), xhat.out(), inv_std.out());
    };
}

Call batchnorm_eval(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("running_mean"),
               var = a.f32("running_var"), y = a.f32("y", Access::out);
    const float eps = a.real("eps");
    a.expect_dims(x, 2, 8);
    per_channel(a, x.shape[1], {&w, &bias, &mean, &var});
    a.expect_shape(y, x.shape);
    return [=] {
        return efl_batchnorm_eval_f32(x.in(), w.in(), bias.in(), mean.in(), var.in(), x.shape[0], x.shape[1], x.inner(),
                                      eps, y.out());
    };
}

Call batchnorm_backward(Args& a) {
    const View dy = a.f32("dy"), xhat = a.f32("xhat"), w = a.f32("weight"), inv_std = a.f32("inv_std"),
               dx = a.f32("dx", Access::out), dw = a.f32("dweight", Access::out), db = a.f32("dbias", Access::out);
    const efl_index channels = a.index("channels"), outs = a.index("outs");
    a.expect_dims(dy, 2, 8);
    per_channel(a, dy.shape[1], {&w, &inv_std});
    per_channel(a, count(outs, dy.shape[1]), {&dw, &db});
    a.expect_shape(xhat, dy.shape);
    a.expect_shape(dx, dy.shape);
    return [=] {
        return efl_batchnorm_backward_f32(dy.in(), xhat.in(), w.in(), inv_std.in(), dy.shape[0], dy.shape[1],
                                          dy.inner(), channels, outs, dx.out(), dw.out(), db.out());
    };
}

Call groupnorm_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), y = a.f32("y", Access::out),
               xhat = a.f32_or_none("xhat", Access::out), inv_std = a.f32("inv_std", Access::out);
    a.expect_dims(x, 2, 8);
    const efl_int64 groups = read_groups(a, x.shape[1]);
    const float eps = a.real("eps");
    per_channel(a, x.shape[1], {&w, &bias});
    a.expect_shape(y, x.shape);
    a.expect_shape(xhat, x.shape);
    a.expect_shape(inv_std, {x.shape[0], groups});
    return [=] {
        return efl_groupnorm_forward_f32(x.in(), w.in(), bias.in(), x.shape[0], x.shape[1], x.inner(), groups, eps,
                                         y.out(), xhat.out(), inv_std.out());
    };
}

Call groupnorm_backward(Args& a) {
    const View dy = a.f32("dy"), xhat = a.f32("xhat"), w = a.f32("weight"), inv_std = a.f32("inv_std"),
               dx = a.f32("dx", Access::out), dw = a.f32("dweight", Access::out), db = a.f32("dbias", Access::out);
    a.expect_dims(dy, 2, 8);
    const efl_int64 groups = read_groups(a, dy.shape[1]);
    const efl_index needed = a.index("groups_needed"), outs = a.index("outs");
    per_channel(a, dy.shape[1], {&w});
    per_channel(a, count(outs, dy.shape[1]), {&dw, &db});
    a.expect_shape(inv_std, {dy.shape[0], groups});
    a.expect_shape(xhat, dy.shape);
    a.expect_shape(dx, dy.shape);
    return [=] {
        return efl_groupnorm_backward_f32(dy.in(), xhat.in(), w.in(), inv_std.in(), dy.shape[0], dy.shape[1],
                                          dy.inner(), groups, needed, outs, dx.out(), dw.out(), db.out());
    };
}

// The extents of a normalisation with ReLU; y has the shape of x, or that of x after a 2 x 2 pool of stride 2.
struct ReluShape {
    efl_int64 batch, channels, height, width;
    efl_int32 halved;

    ReluShape(const Args& a, const View& x, const View& y) {
        a.expect_dims(x, 2, 8);
        batch = x.shape[0];
        channels = x.shape[1];
        height = x.shape.size() == 4 ? x.shape[2] : 1;
        width = x.shape.size() == 4 ? x.shape[3] : x.inner();
        const Shape small{batch, channels, height / 2, width / 2};
        halved = x.shape.size() == 4 && height > 1 && width > 1 && y.shape == small;
        if (!halved && y.shape != x.shape)
            a.refuse(y.name, "shape " + text(y.shape), text(x.shape) + " or " + text(small));
    }
};

Call batchnorm_relu_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"),
               running_mean = a.f32("running_mean", Access::out), running_var = a.f32("running_var", Access::out),
               y = a.f32("y", Access::out), mean = a.f32("mean", Access::out), inv_std = a.f32("inv_std", Access::out);
    const float eps = a.real("eps"), momentum = a.real("momentum");
    const efl_int32 relu6 = a.integer("relu6") != 0;
    const ReluShape s(a, x, y);
    if (x.shape[0] * x.inner() < 2) a.refuse("x", "shape " + text(x.shape), "at least 2 values per channel");
    per_channel(a, s.channels, {&w, &bias, &running_mean, &running_var, &mean, &inv_std});
    return [=] {
        return efl_batchnorm_relu_forward_f32(x.in(), w.in(), bias.in(), s.batch, s.channels, s.height, s.width,
                                              s.halved, relu6, eps, momentum, running_mean.out(), running_var.out(),
                                              y.out(), mean.out(), inv_std.out());
    };
}

Call batchnorm_relu_eval(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("running_mean"),
               var = a.f32("running_var"), y = a.f32("y", Access::out);
    const float eps = a.real("eps");
    const efl_int32 relu6 = a.integer("relu6") != 0;
    const ReluShape s(a, x, y);
    per_channel(a, s.channels, {&w, &bias, &mean, &var});
    return [=] {
        return efl_batchnorm_relu_eval_f32(x.in(), w.in(), bias.in(), mean.in(), var.in(), s.batch, s.channels,
                                           s.height, s.width, s.halved, relu6, eps, y.out());
    };
}

Call batchnorm_relu_backward(Args& a) {
    const View dy = a.f32("dy"), x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("mean"),
               inv_std = a.f32("inv_std"), dx = a.f32("dx", Access::out), dw = a.f32("dweight", Access::out),
               db = a.f32("dbias", Access::out);
    const efl_index channels = a.index("channels"), outs = a.index("outs");
    const efl_int32 relu6 = a.integer("relu6") != 0;
    const ReluShape s(a, x, dy);
    a.expect_shape(dx, x.shape);
    per_channel(a, s.channels, {&w, &bias, &mean, &inv_std});
    per_channel(a, count(outs, s.channels), {&dw, &db});
    return [=] {
        return efl_batchnorm_relu_backward_f32(dy.in(), x.in(), w.in(), bias.in(), mean.in(), inv_std.in(), s.batch,
                                               s.channels, s.height, s.width, s.halved, relu6, channels, outs, dx.out(),
                                               dw.out(), db.out());
    };
}

Call groupnorm_relu_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), y = a.f32("y", Access::out),
               mean = a.f32("mean", Access::out), inv_std = a.f32("inv_std", Access::out);
    const ReluShape s(a, x, y);
    const efl_int64 groups = read_groups(a, s.channels);
    const float eps = a.real("eps");
    per_channel(a, s.channels, {&w, &bias});
    for (const View* view : {&mean, &inv_std}) a.expect_shape(*view, {s.batch, groups});
    return [=] {
        return efl_groupnorm_relu_forward_f32(x.in(), w.in(), bias.in(), s.batch, s.channels, s.height, s.width,
                                              s.halved, groups, eps, y.out(), mean.out(), inv_std.out());
    };
}

Call groupnorm_relu_backward(Args& a) {
    const View dy = a.f32("dy"), x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("mean"),
               inv_std = a.f32("inv_std"), dx = a.f32("dx", Access::out), dw = a.f32("dweight", Access::out),
               db = a.f32("dbias", Access::out);
    const ReluShape s(a, x, dy);
    const efl_int64 groups = read_groups(a, s.channels);
    const efl_index needed = a.index("groups_needed"), outs = a.index("outs");
    a.expect_shape(dx, x.shape);
    per_channel(a, s.channels, {&w, &bias});
    for (const View* view : {&mean, &inv_std}) a.expect_shape(*view, {s.batch, groups});
    per_channel(a, count(outs, s.channels), {&dw, &db});
    return [=] {
        return efl_groupnorm_relu_backward_f32(dy.in(), x.in(), w.in(), bias.in(), mean.in(), inv_std.in(), s.batch,
                                               s.channels, s.height, s.width, s.halved, groups, needed, outs, dx.out(),
                                               dw.out(), db.out());
    };
}

// x [batch, channels, cells, lanes], with `groups` and `relu`.
efl_norm_lanes read_lanes_shape(Args& a, const View& x) {
    a.expect_dims(x, 4, 4);
    if (x.shape[3] < 1) a.refuse(x.name, "shape " + text(x.shape), "1 or more images side by side");
    const efl_int64 groups = read_groups(a, x.shape[1]);
    return {.batch = x.shape[0],
            .channels = x.shape[1],
            .cells = x.shape[2],
            .lanes = x.shape[3],
            .groups = groups,
            .relu = a.integer("relu") != 0};
}

Call groupnorm_lanes_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), y = a.f32("y", Access::out),
               mean = a.f32("mean", Access::out), inv_std = a.f32("inv_std", Access::out);
    const efl_norm_lanes s = read_lanes_shape(a, x);
    const float eps = a.real("eps");
    a.expect_shape(y, x.shape);
    per_channel(a, s.channels, {&w, &bias});
    for (const View* view : {&mean, &inv_std}) a.expect_shape(*view, {s.batch, s.groups, s.lanes});
    return [=] {
        return efl_groupnorm_lanes_forward_f32(&s, x.in(), w.in(), bias.in(), eps, y.out(), mean.out(), inv_std.out());
    };
}

Call groupnorm_lanes_backward(Args& a) {
    const View dy = a.f32("dy"), x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), mean = a.f32("mean"),
               inv_std = a.f32("inv_std"), dx = a.f32("dx", Access::out), dw = a.f32_or_none("dweight", Access::out),
               db = a.f32_or_none("dbias", Access::out);
    const efl_norm_lanes s = read_lanes_shape(a, x);
    for (const View* view : {&dy, &dx}) a.expect_shape(*view, x.shape);
    per_channel(a, s.channels, {&w, &bias, &dw, &db});
    if (!dw.data != !db.data) a.refuse("dbias", db.data ? "values" : "value None", "None if and only if dweight is");
    for (const View* view : {&mean, &inv_std}) a.expect_shape(*view, {s.batch, s.groups, s.lanes});
    return [=] {
        return efl_groupnorm_lanes_backward_f32(&s, dy.in(), x.in(), w.in(), bias.in(), mean.in(), inv_std.in(),
                                                dx.out(), dw.out(), db.out());
    };
}

Call layernorm_forward(Args& a) {
    const View x = a.f32("x"), w = a.f32("weight"), bias = a.f32("bias"), y = a.f32("y", Access::out),
               xhat = a.f32_or_none("xhat", Access::out), inv_std = a.f32("inv_std", Access::out);
    const float eps = a.real("eps");
    a.expect_dims(x, 3, 3);
    per_channel(a, x.shape[1], {&w, &bias});
    a.expect_shape(y, x.shape);
    a.expect_shape(xhat, x.shape);
    a.expect_shape(inv_std, {x.shape[0], x.shape[2]});
    return [=] {
        return efl_layernorm_forward_f32(x.in(), w.in(), bias.in(), x.shape[0], x.shape[1], x.shape[2], eps, y.out(),
                                         xhat.out(), inv_std.out());
    };
}

Call layernorm_backward(Args& a) {
    const View dy = a.f32("dy"), xhat = a.f32("xhat"), w = a.f32("weight"), inv_std = a.f32("inv_std"),
               dx = a.f32("dx", Access::out), dw = a.f32("dweight", Access::out), db = a.f32("dbias", Access::out);
    const efl_index outs = a.index("outs");
    a.expect_dims(dy, 3, 3);
    per_channel(a, dy.shape[1], {&w});
    per_channel(a, count(outs, dy.shape[1]), {&dw, &db});
    a.expect_shape(inv_std, {dy.shape[0], dy.shape[2]});
    a.expect_shape(xhat, dy.shape);
    a.expect_shape(dx, dy.shape);
    return [=] {
        return efl_layernorm_backward_f32(dy.in(), xhat.in(), w.in(), inv_std.in(), dy.shape[0], dy.shape[1],
                                          dy.shape[2], outs, dx.out(), dw.out(), db.out());
    };
}

}  // namespace

const std::vector<Op> norm_ops = {
    {.name = "batchnorm_forward", .make = batchnorm_forward},
    {.name = "batchnorm_eval", .make = batchnorm_eval},
    {.name = "batchnorm_backward", .make = batchnorm_backward},
    {.name = "groupnorm_forward", .make = groupnorm_forward},
    {.name = "groupnorm_backward", .make = groupnorm_backward},
    {.name = "batchnorm_relu_forward", .make = batchnorm_relu_forward},
    {.name = "batchnorm_relu_eval", .make = batchnorm_relu_eval},
    {.name = "batchnorm_relu_backward", .make = batchnorm_relu_backward},
    {.name = "groupnorm_relu_forward", .make = groupnorm_relu_forward},
    {.name = "groupnorm_relu_backward", .make = groupnorm_relu_backward},
    {.name = "groupnorm_lanes_forward", .make = groupnorm_lanes_forward},
    {.name = "groupnorm_lanes_backward", .make = groupnorm_lanes_backward},
    {.name = "layernorm_forward", .make = layernorm_forward},
    {.name = "layernorm_backward", .make = layernorm_backward},
};

}  // namespace efl
