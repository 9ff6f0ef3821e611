// Arguments of dropout and the count of its steps.
#include "call.h"

namespace efl {
namespace {

// A number in [0, 2^bits).
efl_int64 read_bits(Args& a, const char* name, int bits) {
    const efl_int64 value = a.integer(name);
    if (value < 0 || value >> bits)
        a.refuse(name, "value " + std::to_string(value), "0 to " + std::to_string((efl_int64(1) << bits) - 1));
    return value;
}

View read_state(Args& a, Access access) {
    const View state = a.typed<efl_int64>("state", access, "int64");
    a.expect_dims(state, 1, 1);
    a.expect_shape(state, {3});
    return state;
}

Call dropout(Args& a) {
    const View x = a.f32("x"), state = read_state(a, Access::in);
    a.expect_dims(x, 2, 8);
    efl_dropout d{};
    d.batch = x.shape[0];
    d.channels = x.shape[1];
    d.inner = x.inner();
    d.node = read_bits(a, "node", 31);
    d.threshold = read_bits(a, "threshold", 32);
    d.scale = a.real("scale");
    d.whole = a.integer("whole") != 0;
    const View y = a.f32("y", Access::out);
    const efl_index channels = a.index("channels");
    a.expect_shape(y, x.shape);
    return [=] { return efl_dropout_f32(&d, x.in(), state.as<efl_int64>(), channels, y.out()); };
}

Call count_step(Args& a) {
    const View state = read_state(a, Access::out);
    return [=] { return efl_count_step(state.as<efl_int64>()); };
}

}  // namespace

const std::vector<Op> dropout_ops = {
    {.name = "dropout", .make = dropout},
    {.name = "count_step", .make = count_step},
};

}  // namespace efl
