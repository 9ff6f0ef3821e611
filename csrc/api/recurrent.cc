// GRU, LSTM and sequences turned into steps: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

static efl_status geometry(const efl_recurrence& r, efl_int64 gates) {
    EFL_CHECK(single_extents({r.steps, r.batch, r.units}));
    EFL_CHECK(extents({r.steps + 1, r.batch, gates, r.units}));
    return extents({gates, r.units, r.units});
}

efl_status efl_to_steps_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 steps, float* y) {
    EFL_CHECK(extents({batch, channels, steps}));
    EFL_CHECK(pointers({x, y}));
    return table().to_steps_f32(x, batch, channels, steps, y);
}

efl_status efl_from_steps_f32(const float* y, efl_int64 passed, efl_int64 batch, efl_int64 channels, efl_int64 steps,
                              float* x) {
    EFL_CHECK(single_extents({passed, steps}));
    EFL_CHECK(extents({passed + steps, batch, channels}));
    EFL_CHECK(pointers({y, x}));
    return table().from_steps_f32(y, passed, batch, channels, steps, x);
}

efl_status efl_gru_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                               float* hidden, float* states) {
    EFL_CHECK(pointers({shape, weight, gates, states}));
    EFL_CHECK(geometry(*shape, 3));
    return table().gru_forward_f32(shape, weight, bias, gates, hidden, states);
}

efl_status efl_gru_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight, const float* hidden,
                                const float* states, efl_index listed, float* gates, float* dhidden) {
    EFL_CHECK(pointers({shape, dy, weight, hidden, states, gates, dhidden}));
    EFL_CHECK(geometry(*shape, 3));
    EFL_CHECK(index(listed, shape->units));
    return table().gru_backward_f32(shape, dy, weight, hidden, states, listed, gates, dhidden);
}

efl_status efl_lstm_forward_f32(const efl_recurrence* shape, const float* weight, const float* bias, float* gates,
                                float* cells, float* states) {
    EFL_CHECK(pointers({shape, weight, gates, cells, states}));
    EFL_CHECK(geometry(*shape, 4));
    return table().lstm_forward_f32(shape, weight, bias, gates, cells, states);
}

efl_status efl_lstm_backward_f32(const efl_recurrence* shape, const float* dy, const float* weight, const float* cells,
                                 efl_index listed, float* gates) {
    EFL_CHECK(pointers({shape, dy, weight, cells, gates}));
    EFL_CHECK(geometry(*shape, 4));
    EFL_CHECK(index(listed, shape->units));
    return table().lstm_backward_f32(shape, dy, weight, cells, listed, gates);
}
