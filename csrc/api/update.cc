// The step of SGD and the clipping before it: checks every argument, then calls the table.
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
