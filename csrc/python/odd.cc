// Arguments of single operations that a row cannot say: any type, a status with a reason of its own, a number in
// memory.
#include <cstring>
#include <stdexcept>

#include "call.h"

namespace efl::reading {

Call fill_zero(Args& a) {
    const View x = a.memory("x", Access::out);
    return [=] {
        std::memset(x.data, 0, size_t(x.size()));
        return EFL_OK;
    };
}

Call permute(Args& a) {
    const View values = a.f32("values"), order = a.typed("order", Access::in, Type::uint32);
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

Call clip_scale(Args& a) {
    const View total = a.typed("total", Access::in, Type::float64);
    const float max_norm = a.real("max_norm");
    if (!(max_norm >= 0)) a.refuse("max_norm", "value " + std::to_string(max_norm), "a number >= 0");
    const View scale = a.f32("scale", Access::out);
    a.expect_shape(total, {1});
    a.expect_shape(scale, {1});
    return [=] { return efl_clip_scale(*total.as<double>(), double(max_norm), scale.out()); };
}

}  // namespace efl::reading
