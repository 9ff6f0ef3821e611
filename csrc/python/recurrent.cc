// Arguments of GRU, LSTM and of sequences turned into steps.
#include "call.h"

namespace efl {
namespace {

Call to_steps(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out);
    a.expect_dims(x, 3, 3);
    a.expect_shape(y, {x.shape[2], x.shape[0], x.shape[1]});
    return [=] { return efl_to_steps_f32(x.in(), x.shape[0], x.shape[1], x.shape[2], y.out()); };
}

Call from_steps(Args& a) {
    const View y = a.f32("y"), x = a.f32("x", Access::out);
    a.expect_dims(y, 3, 3);
    a.expect_dims(x, 3, 3);
    a.expect_shape(x, {y.shape[1], y.shape[2], x.shape[2]});
    const efl_int64 passed = y.shape[0] - x.shape[2];
    if (passed < 0) a.refuse("y", "of " + std::to_string(y.shape[0]) + " steps", "at least those of x");
    return [=] { return efl_from_steps_f32(y.in(), passed, x.shape[0], x.shape[1], x.shape[2], x.out()); };
}

// Of gates [steps, batch, gates units], whose weight is [gates units, units].
efl_recurrence read_shape(const Args& a, const View& gates, const View& weight, efl_int64 count) {
    a.expect_dims(gates, 3, 3);
    a.expect_dims(weight, 2, 2);
    const efl_int64 units = weight.shape[1];
    a.expect_shape(weight, {count * units, units});
    a.expect_shape(gates, {gates.shape[0], gates.shape[1], count * units});
    return {gates.shape[0], gates.shape[1], units};
}

// [steps + more, batch, units], or None.
void expect_steps(const Args& a, const View& view, const efl_recurrence& r, efl_int64 more) {
    a.expect_shape(view, {r.steps + more, r.batch, r.units});
}

Call gru_forward(Args& a) {
    const View gates = a.f32("gates", Access::out), weight = a.f32("weight"), bias = a.f32_or_none("bias"),
               hidden = a.f32_or_none("hidden", Access::out), states = a.f32("states", Access::out);
    const efl_recurrence shape = read_shape(a, gates, weight, 3);
    a.expect_shape(bias, {3 * shape.units});
    expect_steps(a, hidden, shape, 0);
    expect_steps(a, states, shape, 1);
    return [=] { return efl_gru_forward_f32(&shape, weight.in(), bias.in(), gates.out(), hidden.out(), states.out()); };
}

Call gru_backward(Args& a) {
    const View dy = a.f32("dy"), gates = a.f32("gates", Access::out), hidden = a.f32("hidden"),
               states = a.f32("states"), weight = a.f32("weight"), dhidden = a.f32("dhidden", Access::out);
    const efl_index listed = a.index("units");
    const efl_recurrence shape = read_shape(a, gates, weight, 3);
    expect_steps(a, dy, shape, 0);
    expect_steps(a, hidden, shape, 0);
    expect_steps(a, states, shape, 1);
    a.expect_shape(dhidden, gates.shape);
    return [=] {
        return efl_gru_backward_f32(&shape, dy.in(), weight.in(), hidden.in(), states.in(), listed, gates.out(),
                                    dhidden.out());
    };
}

Call lstm_forward(Args& a) {
    const View gates = a.f32("gates", Access::out), weight = a.f32("weight"), bias = a.f32_or_none("bias"),
               cells = a.f32("cells", Access::out), states = a.f32("states", Access::out);
    const efl_recurrence shape = read_shape(a, gates, weight, 4);
    a.expect_shape(bias, {4 * shape.units});
    expect_steps(a, cells, shape, 1);
    expect_steps(a, states, shape, 1);
    return [=] { return efl_lstm_forward_f32(&shape, weight.in(), bias.in(), gates.out(), cells.out(), states.out()); };
}

Call lstm_backward(Args& a) {
    const View dy = a.f32("dy"), gates = a.f32("gates", Access::out), cells = a.f32("cells"), weight = a.f32("weight");
    const efl_index listed = a.index("units");
    const efl_recurrence shape = read_shape(a, gates, weight, 4);
    expect_steps(a, dy, shape, 0);
    expect_steps(a, cells, shape, 1);
    return [=] { return efl_lstm_backward_f32(&shape, dy.in(), weight.in(), cells.in(), listed, gates.out()); };
}

}  // namespace

const std::vector<Op> recurrent_ops = {
    {.name = "to_steps", .make = to_steps},         {.name = "from_steps", .make = from_steps},
    {.name = "gru_forward", .make = gru_forward},   {.name = "gru_backward", .make = gru_backward},
    {.name = "lstm_forward", .make = lstm_forward}, {.name = "lstm_backward", .make = lstm_backward},
};

}  // namespace efl
