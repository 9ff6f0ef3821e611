// Arguments of the masked linear layers.
#include "call.h"

namespace efl {
namespace {

View structure_of(Args& a, const char* name, Access access = Access::in) {
    const View view = a.typed<efl_uint32>(name, access, "uint32");
    a.expect_dims(view, 1, 1);
    return view;
}

View values_of(Args& a, const char* name, Access access = Access::in) {
    const View view = a.f32(name, access);
    a.expect_dims(view, 1, 1);
    return view;
}

Call sparse_linear_build(Args& a) {
    const View mask = a.typed<efl_uint8>("mask", Access::in, "uint8");
    const View structure = structure_of(a, "structure", Access::out), order = structure_of(a, "order", Access::out);
    const View structure_t = a.typed_or_none<efl_uint32>("structure_t", Access::out, "uint32"),
               order_t = a.typed_or_none<efl_uint32>("order_t", Access::out, "uint32");
    const efl_int64 batch = a.integer("batch");
    a.expect_dims(mask, 2, 2);
    const efl_int64 out = mask.shape[0], in = mask.shape[1], count = order.size();
    if (batch < 0) a.refuse("batch", "value " + std::to_string(batch), "a number >= 0");
    const auto words = [=](bool turned) { return efl_sparse_linear_words(out, in, count, batch, turned); };
    if (words(false) < 0) a.refuse("order", "shape " + text(order.shape), "a slot for each weight that is kept");
    a.expect_shape(structure, {words(false)});
    a.expect_shape(structure_t, {words(true)});
    a.expect_shape(order_t, {count});
    if (!structure_t.data != !order_t.data) a.refuse("order_t", "None or not", "None if and only if structure_t is");
    return [=] {
        return efl_sparse_linear_build(mask.as<efl_uint8>(), out, in, count, batch, structure.as<efl_uint32>(),
                                       structure.size(), order.as<efl_uint32>(), structure_t.as<efl_uint32>(),
                                       structure_t.data ? structure_t.size() : 0, order_t.as<efl_uint32>());
    };
}

Call sparse_linear_forward(Args& a) {
    const View x = a.f32("x"), structure = structure_of(a, "structure"), values = values_of(a, "values"),
               bias = a.f32_or_none("bias"), y = a.f32("y", Access::out);
    a.expect_dims(x, 2, 2);
    a.expect_dims(y, 2, 2);
    const efl_int64 batch = x.shape[0], in = x.shape[1], out = y.shape[1];
    a.expect_shape(y, {batch, out});
    a.expect_shape(bias, {out});
    return [=] {
        return efl_sparse_linear_forward_f32(structure.as<efl_uint32>(), structure.size(), values.in(), values.size(),
                                             x.in(), bias.in(), batch, in, out, y.out());
    };
}

Call sparse_linear_grad_input(Args& a) {
    const View dy = a.f32("dy"), structure = structure_of(a, "structure"), values = values_of(a, "values"),
               dx = a.f32("dx", Access::out);
    a.expect_dims(dy, 2, 2);
    a.expect_dims(dx, 2, 2);
    const efl_int64 batch = dy.shape[0], out = dy.shape[1], in = dx.shape[1];
    a.expect_shape(dx, {batch, in});
    return [=] {
        return efl_sparse_linear_grad_input_f32(structure.as<efl_uint32>(), structure.size(), values.in(),
                                                values.size(), dy.in(), batch, in, out, dx.out());
    };
}

Call sparse_linear_grad_weight(Args& a) {
    const View x = a.f32("x"), dy = a.f32("dy"), structure = structure_of(a, "structure"),
               gradients = values_of(a, "gradients", Access::out);
    a.expect_dims(x, 2, 2);
    a.expect_dims(dy, 2, 2);
    const efl_int64 batch = x.shape[0], in = x.shape[1], out = dy.shape[1];
    a.expect_shape(dy, {batch, out});
    return [=] {
        return efl_sparse_linear_grad_weight_f32(structure.as<efl_uint32>(), structure.size(), x.in(), dy.in(), batch,
                                                 in, out, gradients.out(), gradients.size());
    };
}

}  // namespace

const std::vector<Op> sparse_linear_ops = {
    {.name = "sparse_linear_build", .make = sparse_linear_build},
    {.name = "sparse_linear_forward", .make = sparse_linear_forward},
    {.name = "sparse_linear_grad_input", .make = sparse_linear_grad_input},
    {.name = "sparse_linear_grad_weight", .make = sparse_linear_grad_weight},
};

}  // namespace efl
