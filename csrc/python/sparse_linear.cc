// Arguments of the masked linear layers.
#include "call.h"

namespace efl::reading {

static View structure_of(Args& a, const char* name, Access access = Access::in) {
    const View view = a.typed(name, access, Type::uint32);
    a.expect_dims(view, 1, 1);
    return view;
}

Call sparse_linear_build(Args& a) {
    const View mask = a.typed("mask", Access::in, Type::uint8);
    const View structure = structure_of(a, "structure", Access::out), order = structure_of(a, "order", Access::out);
    const View structure_t = a.typed_or_none("structure_t", Access::out, Type::uint32),
               order_t = a.typed_or_none("order_t", Access::out, Type::uint32);
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

}  // namespace efl::reading
