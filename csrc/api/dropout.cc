// Dropout and the count of its steps: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_dropout_f32(const efl_dropout* d, const float* x, const efl_int64* state, efl_index channels_needed,
                           float* y) {
    EFL_CHECK(pointers({d, x, state, y}));
    EFL_CHECK(extents({d->batch, d->channels, d->inner}));
    if (d->node < 0 || d->node >> 31 || d->threshold < 0 || d->threshold >> 32) return EFL_BAD_ARGUMENT;
    EFL_CHECK(index(channels_needed, d->channels));
    return table().dropout_f32(d, x, state, channels_needed, y);
}

efl_status efl_count_step(efl_int64* state) {
    EFL_CHECK(pointers({state}));
    state[1] = efl_int64((unsigned long long)(state[1]) + 1);
    return EFL_OK;
}
