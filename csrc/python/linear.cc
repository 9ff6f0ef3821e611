// Arguments of the linear layers and of bias gradients.
#include <cstring>
#include <stdexcept>

#include "call.h"

namespace efl {
namespace {

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
        a.refuse("cols", std::to_string(count(cols, in)) + " columns",
                 std::to_string(count(ins, x.shape[1])) + ", as many as ins");
    return [=] {
        efl_sgd values;
        std::memcpy(&values, hyper.data, sizeof values);
        if (values.momentum != 0 || values.pull != 0)
            throw std::invalid_argument("linear_update: hyper has momentum " + std::to_string(values.momentum) +
                                        " and pull " + std::to_string(values.pull) + "; expected 0");
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

const std::vector<Op> linear_ops = {
    {.name = "linear_forward", .make = linear_forward},
    {.name = "linear_grad_input", .make = linear_grad_input},
    {.name = "linear_grad_weight", .make = linear_grad_weight},
    {.name = "linear_update", .make = linear_update},
    {.name = "channel_sum", .make = channel_sum},
};

}  // namespace efl
