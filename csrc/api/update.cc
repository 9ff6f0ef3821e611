// The steps of SGD and Adam and the clipping before them: checks every argument, then calls the table.
#include <cmath>

#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_sum_squares_f32(const float* x, efl_int64 count, double* total) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({x, total}));
    return table().sum_squares_f32(x, count, total);
}

efl_status efl_clip_scale(double total, double max_norm, float* scale) {
    EFL_CHECK(pointers({scale}));
    if (!(max_norm >= 0)) return EFL_BAD_ARGUMENT;
    const double ratio = max_norm / (std::sqrt(total) + 1e-6);
    *scale = ratio > 1 ? 1.0f : float(ratio);
    return EFL_OK;
}

efl_status efl_sgd_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                       const float* grad, const efl_sgd* sgd, const float* scale, float* velocity, const float* centre,
                       const float* linear) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, grad, sgd}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    if ((sgd->momentum != 0 && !velocity) || (sgd->pull != 0 && !centre)) return EFL_BAD_ARGUMENT;
    return table().sgd_f32(w, n_rows, n_cols, inner, rows, cols, grad, sgd, scale, velocity, centre, linear);
}

efl_status efl_nesterov_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                            efl_index cols, const float* grad, const efl_sgd* sgd, float* velocity, const float* scale,
                            const float* centre, const float* linear) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, grad, sgd, velocity}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    if (sgd->pull != 0 && !centre) return EFL_BAD_ARGUMENT;
    return table().nesterov_f32(w, n_rows, n_cols, inner, rows, cols, grad, sgd, velocity, scale, centre, linear);
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

efl_status efl_adam_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                        const float* grad, const efl_adam_rates* rates, float* mean, float* square, const float* scale,
                        const float* centre, const float* linear) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, grad, rates, mean, square}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    if (rates->pull != 0 && !centre) return EFL_BAD_ARGUMENT;
    return table().adam_f32(w, n_rows, n_cols, inner, rows, cols, grad, rates, mean, square, scale, centre, linear);
}
