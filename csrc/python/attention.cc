// Arguments of attention.
#include "call.h"

namespace efl {
namespace {

// Of a result [batch, channels, places] and its queries, keys and values.
efl_attention read_shape(const Args& a, const View& qkv, const View& y, efl_int64 heads, efl_int64 causal) {
    a.expect_dims(y, 3, 3);
    a.expect_shape(qkv, {y.shape[0], 3 * y.shape[1], y.shape[2]});
    if (heads < 1 || y.shape[1] % heads)
        a.refuse("heads", "value " + std::to_string(heads), "a divisor of " + std::to_string(y.shape[1]));
    return {y.shape[0], y.shape[1], y.shape[2], heads, causal != 0};
}

Call attention_forward(Args& a) {
    const View qkv = a.f32("qkv");
    const efl_int64 heads = a.integer("heads"), causal = a.integer("causal");
    const View y = a.f32("y", Access::out), shares = a.f32_or_none("shares", Access::out);
    const efl_attention shape = read_shape(a, qkv, y, heads, causal);
    a.expect_shape(shares, {shape.batch, heads, shape.places, shape.places});
    return [=] { return efl_attention_forward_f32(&shape, qkv.in(), y.out(), shares.out()); };
}

Call attention_backward(Args& a) {
    const View dy = a.f32("dy"), qkv = a.f32("qkv"), shares = a.f32("shares");
    const efl_int64 heads = a.integer("heads"), causal = a.integer("causal");
    const View dqkv = a.f32("dqkv", Access::out);
    const efl_index needed = a.index("heads_needed");
    const efl_attention shape = read_shape(a, qkv, dy, heads, causal);
    a.expect_shape(shares, {shape.batch, heads, shape.places, shape.places});
    a.expect_shape(dqkv, qkv.shape);
    return [=] { return efl_attention_backward_f32(&shape, dy.in(), qkv.in(), shares.in(), needed, dqkv.out()); };
}

}  // namespace

const std::vector<Op> attention_ops = {
    {.name = "attention_forward", .make = attention_forward},
    {.name = "attention_backward", .make = attention_backward},
};

}  // namespace efl
