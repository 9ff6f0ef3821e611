// Arguments of smooth activations and PReLU.
#include "call.h"

namespace efl {
namespace {

// A number that the C function checks, as int32.
efl_int32 read_kind(Args& a) {
    const efl_int64 kind = a.integer("kind");
    if (kind < 0 || kind > 7) a.refuse("kind", "value " + std::to_string(kind), "0 to 7");
    return efl_int32(kind);
}

float read_beta(Args& a) {
    const float beta = a.real("beta");
    if (!(beta > 0)) a.refuse("beta", "value " + std::to_string(beta), "a number above 0");
    return beta;
}

void expect_one_or_each(const Args& a, const View& weight, efl_int64 channels) {
    a.expect_dims(weight, 1, 1);
    if (weight.size() != 1) a.expect_shape(weight, {channels});
}

Call activation_forward(Args& a) {
    const View x = a.f32("x");
    const efl_int32 kind = read_kind(a);
    const float beta = read_beta(a), threshold = a.real("threshold");
    const View y = a.f32("y", Access::out);
    a.expect_shape(y, x.shape);
    return [=] { return efl_activation_forward_f32(x.in(), x.size(), kind, beta, threshold, y.out()); };
}

Call activation_backward(Args& a) {
    const View dy = a.f32("dy"), saved = a.f32("saved");
    const efl_int32 kind = read_kind(a);
    const float beta = read_beta(a), threshold = a.real("threshold");
    const View dx = a.f32("dx", Access::out);
    const efl_index channels = a.index("channels");
    a.expect_dims(dy, 2, 8);
    a.expect_shape(saved, dy.shape);
    a.expect_shape(dx, dy.shape);
    return [=] {
        return efl_activation_backward_f32(dy.in(), saved.in(), dy.shape[0], dy.shape[1], dy.inner(), kind, beta,
                                           threshold, channels, dx.out());
    };
}

Call prelu_forward(Args& a) {
    const View x = a.f32("x"), weight = a.f32("weight"), y = a.f32("y", Access::out);
    a.expect_dims(x, 2, 8);
    expect_one_or_each(a, weight, x.shape[1]);
    a.expect_shape(y, x.shape);
    return [=] {
        return efl_prelu_forward_f32(x.in(), weight.in(), weight.size(), x.shape[0], x.shape[1], x.inner(), y.out());
    };
}

Call prelu_backward(Args& a) {
    const View dy = a.f32("dy"), x = a.f32("x"), weight = a.f32("weight"), dx = a.f32("dx", Access::out),
               dweight = a.f32("dweight", Access::out);
    const efl_index channels = a.index("channels"), outs = a.index("outs");
    a.expect_dims(dy, 2, 8);
    a.expect_shape(x, dy.shape);
    a.expect_shape(dx, dy.shape);
    expect_one_or_each(a, weight, dy.shape[1]);
    a.expect_shape(dweight, {count(outs, weight.size())});
    return [=] {
        return efl_prelu_backward_f32(dy.in(), x.in(), weight.in(), weight.size(), dy.shape[0], dy.shape[1], dy.inner(),
                                      channels, outs, dx.out(), dweight.out());
    };
}

}  // namespace

const std::vector<Op> activation_ops = {
    {.name = "activation_forward", .make = activation_forward},
    {.name = "activation_backward", .make = activation_backward},
    {.name = "prelu_forward", .make = prelu_forward},
    {.name = "prelu_backward", .make = prelu_backward},
};

}  // namespace efl
