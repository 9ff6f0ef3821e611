// Stochastic gradient descent in place on a block, and the two reductions that go with it: squared norm and channel sums.
//
// The update multiplies, then adds (never fused), so that every ISA and every segment length gives the same bits.

struct SgdStep {
    const efl_sgd* sgd;
    float scale;
    float *w, *velocity;
    const float *grad, *centre, *linear;

    // n scalars, at `at` in w and at `k` in the compact arrays.
    inline void segment(int64_t at, int64_t k, int64_t n) const {
        const float lr = sgd->lr, momentum = sgd->momentum, decay = sgd->weight_decay, pull = sgd->pull;
        float* p = w + at;
        if (!velocity && !centre && !linear) {
            for (int64_t i = 0; i < n; ++i) p[i] -= lr * (scale * grad[k + i] + decay * p[i]);
            return;
        }
        for (int64_t i = 0; i < n; ++i) {
            float g = scale * grad[k + i] + decay * p[i];
            if (centre) g += pull * (p[i] - centre[k + i]);
            if (linear) g += linear[k + i];
            if (velocity) g = velocity[k + i] = momentum * velocity[k + i] + g;
            p[i] -= lr * g;
        }
    }
};

static efl_status sgd_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                          const float* grad, const efl_sgd* sgd, const float* scale, float* velocity, const float* centre,
                          const float* linear) {
    const bool has_momentum = sgd->momentum != 0;
    const SgdStep step{sgd, scale ? *scale : 1.0f, w, has_momentum ? velocity : nullptr, grad, sgd->pull != 0 ? centre : nullptr, linear};
    split(count_of(rows, n_rows), count_of(cols, n_cols) * inner, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
            each_segment(r, n_cols, inner, rows, cols, [&](int64_t at, int64_t k, int64_t n) { step.segment(at, k, n); });
    });
    return EFL_OK;
}

// Eight running sums in float64, added in pairs at the end: the order depends on count alone, also across ISAs.
static efl_status sum_squares_f32(const float* x, efl_int64 count, double* total) {
    double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int k = 0; k < 8; ++k) lane[k] += double(x[i + k]) * double(x[i + k]);
    for (int k = 0; i < count; ++i, ++k) lane[k] += double(x[i]) * double(x[i]);
    *total += ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    return EFL_OK;
}
