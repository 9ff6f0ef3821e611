// Adam and AdamW in place on a block, with two states for each of its values. Not the rates of a step, which are the
// same for all blocks (api/update.cc).
//
// Multiplied, then added (never fused), and divided: every ISA and every segment length gives the same bits.

struct AdamStep {
    efl_adam_rates rate;
    float scale;
    float *w, *mean, *square;
    const float *grad, *centre, *linear;  // the last two: NULL where they take no part

    // The scalar at `at` in w and at `k` in the compact arrays.
    inline void element(int64_t at, int64_t k) const {
        float g = scale * grad[k] + rate.decay * w[at];
        if (centre) g += rate.pull * (w[at] - centre[k]);
        if (linear) g += linear[k];
        const float m = mean[k] = mean[k] + rate.mean_share * (g - mean[k]);
        const float v = square[k] = rate.square_kept * square[k] + rate.square_share * g * g;
        w[at] = w[at] * rate.kept - rate.step * m / (std::sqrt(v) / rate.root + rate.epsilon);
    }

    inline void vector(int64_t at, int64_t k) const {
        const vf p = load(w + at);
        vf g = add(mul(set1(scale), load(grad + k)), mul(set1(rate.decay), p));
        if (centre) g = add(g, mul(set1(rate.pull), sub(p, load(centre + k))));
        if (linear) g = add(g, load(linear + k));
        const vf before = load(mean + k), m = add(before, mul(set1(rate.mean_share), sub(g, before)));
        const vf v = add(mul(set1(rate.square_kept), load(square + k)), mul(mul(set1(rate.square_share), g), g));
        store(mean + k, m);
        store(square + k, v);
        const vf size = add(div(sqrt(v), set1(rate.root)), set1(rate.epsilon));
        store(w + at, sub(mul(p, set1(rate.kept)), div(mul(set1(rate.step), m), size)));
    }

    inline void segment(int64_t at, int64_t k, int64_t n) const {
        int64_t i = 0;
        for (; i + W <= n; i += W) vector(at + i, k + i);
        for (; i < n; ++i) element(at + i, k + i);
    }
};

static efl_status adam_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                           efl_index cols, const float* grad, const efl_adam_rates* rates, float* mean, float* square,
                           const float* scale, const float* centre, const float* linear) {
    const AdamStep step{
        .rate = *rates,
        .scale = scale ? *scale : 1.0f,
        .w = w,
        .mean = mean,
        .square = square,
        .grad = grad,
        .centre = rates->pull != 0 ? centre : nullptr,
        .linear = linear,
    };
    walk(
        Block{n_rows, n_cols, inner, rows, cols}, [&](int64_t at, int64_t k) { step.element(at, k); },
        [&](int64_t at, int64_t k, int64_t n) { step.segment(at, k, n); });
    return EFL_OK;
}
