// Operations on a few numbers, which no instruction set has a body for: checks every argument, then computes.
#include <cmath>

#include "../core/check.h"

using namespace efl;

efl_status efl_count_step(efl_int64* state) {
    EFL_CHECK(pointers({state}));
    state[1] = efl_int64((unsigned long long)(state[1]) + 1);
    return EFL_OK;
}

efl_status efl_clip_scale(double total, double max_norm, float* scale) {
    EFL_CHECK(pointers({scale}));
    if (!(max_norm >= 0)) return EFL_BAD_ARGUMENT;
    const double ratio = max_norm / (std::sqrt(total) + 1e-6);
    *scale = ratio > 1 ? 1.0f : float(ratio);
    return EFL_OK;
}

static bool is_share(double beta) { return beta >= 0 && beta < 1; }

efl_status efl_begin_adam(const efl_adam* adam, efl_int64* steps, efl_adam_rates* rates) {
    EFL_CHECK(pointers({adam, steps, rates}));
    if (!is_share(adam->beta1) || !is_share(adam->beta2) || !(adam->epsilon > 0) || *steps < 0) return EFL_BAD_ARGUMENT;
    const double t = double(++*steps), decay = adam->weight_decay;
    *rates = {
        .mean_share = float(1 - adam->beta1),
        .square_kept = float(adam->beta2),
        .square_share = float(1 - adam->beta2),
        .step = float(adam->lr / (1 - std::pow(adam->beta1, t))),
        .root = float(std::sqrt(1 - std::pow(adam->beta2, t))),
        .epsilon = float(adam->epsilon),
        .decay = float(adam->decoupled != 0 ? 0 : decay),
        .kept = float(adam->decoupled != 0 ? 1 - adam->lr * decay : 1),
        .pull = float(adam->pull),
    };
    return EFL_OK;
}
