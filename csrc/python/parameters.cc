// Arguments of gather and scatter of parameters.
#include <stdexcept>

#include "call.h"

namespace efl {
namespace {

// A parameter and its values may have any 4-byte type.

Call take_axes(Args& a) {
    const View w = a.word("w", Access::in);
    const efl_index rows = a.index("rows"), cols = a.index("cols");
    const View values = a.word("values", Access::out);
    a.expect_dims(w, 3, 3);
    a.expect_size(values, block_size(w, rows, cols));
    return [=] { return efl_take_axes_32(w.data, w.shape[0], w.shape[1], w.shape[2], rows, cols, values.data); };
}

Call put_axes(Args& a) {
    const View w = a.word("w", Access::out);
    const efl_index rows = a.index("rows"), cols = a.index("cols");
    const View values = a.word("values", Access::in);
    a.expect_dims(w, 3, 3);
    a.expect_size(values, block_size(w, rows, cols));
    return [=] { return efl_put_axes_32(w.data, w.shape[0], w.shape[1], w.shape[2], rows, cols, values.data); };
}

Call take_flat(Args& a) {
    const View w = a.word("w", Access::in), ids = a.typed<efl_uint32>("ids", Access::in, "uint32"),
               values = a.word("values", Access::out);
    a.expect_size(values, ids.size());
    return [=] { return efl_take_flat_32(w.data, w.size(), ids.as<efl_uint32>(), ids.size(), values.data); };
}

Call put_flat(Args& a) {
    const View w = a.word("w", Access::out), ids = a.typed<efl_uint32>("ids", Access::in, "uint32"),
               values = a.word("values", Access::in);
    a.expect_size(values, ids.size());
    return [=] { return efl_put_flat_32(w.data, w.size(), ids.as<efl_uint32>(), ids.size(), values.data); };
}

Call permute(Args& a) {
    const View values = a.f32("values"), order = a.typed<efl_uint32>("order", Access::in, "uint32");
    const View permuted = a.f32("permuted", Access::out);
    a.expect_dims(values, 1, 1);
    a.expect_shape(order, values.shape);
    a.expect_shape(permuted, values.shape);
    return [=] {
        const efl_status status = efl_permute_f32(values.in(), order.as<efl_uint32>(), values.size(), permuted.out());
        if (status == EFL_BAD_INDEX)
            throw std::invalid_argument("permute: order has places that are too large; expected places below " +
                                        std::to_string(values.size()));
        return status;
    };
}

}  // namespace

const std::vector<Op> parameters_ops = {
    {.name = "take_axes", .make = take_axes}, {.name = "put_axes", .make = put_axes},
    {.name = "take_flat", .make = take_flat}, {.name = "put_flat", .make = put_flat},
    {.name = "permute", .make = permute},
};

}  // namespace efl
