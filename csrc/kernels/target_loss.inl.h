// Losses of outputs against as many targets, one row at a time: binary cross-entropy, squared and absolute error,
// Huber's. Not those of a label for a row (loss.inl.h).
//
// A loss gives for a vector of outputs and one of targets, `at` in the row, the vector of losses and that of slopes.

struct BinaryLoss {
    const float* pos_weight;  // NULL: 1

    inline vf weight(int64_t at, int n) const { return pos_weight ? load_n(pos_weight + at, n) : set1(1.0f); }

    inline void vector(vf x, vf t, int64_t at, int n, vf* loss, vf* slope) const {
        const vf against = sub(set1(1.0f), t), asked = mul(weight(at, n), t), e = exp_nonpositive(negated(absolute(x)));
        *loss = add(mul(asked, log1p_exp(negated(x))), mul(against, log1p_exp(x)));
        *slope = sub(mul(against, sigmoid_of(x, e)), mul(asked, sigmoid_of(negated(x), e)));
    }
};

struct SquaredLoss {
    inline void vector(vf y, vf t, int64_t, int, vf* loss, vf* slope) const {
        const vf d = sub(y, t);
        *loss = mul(d, d);
        *slope = add(d, d);
    }
};

struct AbsoluteLoss {
    inline void vector(vf y, vf t, int64_t, int, vf* loss, vf* slope) const {
        const vf d = sub(y, t), one = set1(1.0f);
        *loss = absolute(d);
        *slope = if_above(d, zero(), one, if_above(zero(), d, set1(-1.0f), mul(d, zero())));
    }
};

// With c the difference d cut off at delta, c (d - c / 2): d^2 / 2 inside, delta (|d| - delta / 2) outside.
struct HuberLoss {
    float delta;

    inline void vector(vf y, vf t, int64_t, int, vf* loss, vf* slope) const {
        const vf d = sub(y, t), low = if_above(set1(-delta), d, set1(-delta), d), cut = at_most(low, delta);
        *loss = mul(cut, sub(d, mul(cut, set1(0.5f))));
        *slope = cut;
    }
};

// The mean of a row's losses; its gradient if asked, which may be the row.
template <class Loss>
static inline double target_row(const Loss& of, const float* y, const float* targets, int64_t n, float scale,
                                float* gradient) {
    vf total = zero(), loss, slope;
    for (int64_t k = 0; k < n; k += W) {
        const int lanes = int(least(W, n - k));
        of.vector(load_n(y + k, lanes), load_n(targets + k, lanes), k, lanes, &loss, &slope);
        total = add(total, lanes == W ? loss : keep_bits(loss, (1u << lanes) - 1u));
        if (gradient) store_n(gradient + k, mul(slope, set1(scale)), lanes);
    }
    return double(sum(total)) / double(n);
}

// Outputs on the same side of 0 as their targets of a half. What is not a number is on neither.
static inline int64_t right_decisions(const float* x, const float* targets, int64_t n) {
    int64_t right = 0;
    for (int64_t k = 0; k < n; ++k) right += x[k] == x[k] && (x[k] > 0.0f) == (targets[k] > 0.5f);
    return right;
}

static efl_status binary_cross_entropy_f32(const float* logits, const float* targets, const float* pos_weight,
                                           efl_int64 batch, efl_int64 outputs, float* dlogits, double* loss,
                                           efl_int64* correct) {
    const float scale = float(1.0 / (double(batch) * double(outputs)));
    sum_rows(batch, outputs, loss, correct, [&](int64_t i) {
        const int64_t at = i * outputs;
        const int64_t right = right_decisions(logits + at, targets + at, outputs);
        float* gradient = dlogits ? dlogits + at : nullptr;
        return RowLoss{target_row(BinaryLoss{pos_weight}, logits + at, targets + at, outputs, scale, gradient), right};
    });
    return EFL_OK;
}

template <class Loss>
static efl_status error_of(const Loss& of, const float* y, const float* targets, int64_t batch, int64_t outputs,
                           float* dy, double* loss) {
    const float scale = float(1.0 / (double(batch) * double(outputs)));
    efl_int64 none = 0;
    sum_rows(batch, outputs, loss, &none, [&](int64_t i) {
        const int64_t at = i * outputs;
        return RowLoss{target_row(of, y + at, targets + at, outputs, scale, dy ? dy + at : nullptr), 0};
    });
    return EFL_OK;
}

static efl_status squared_error_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float* dy,
                                    double* loss) {
    return error_of(SquaredLoss{}, y, targets, batch, outputs, dy, loss);
}

static efl_status huber_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float delta,
                            float* dy, double* loss) {
    return error_of(HuberLoss{delta}, y, targets, batch, outputs, dy, loss);
}

static efl_status absolute_error_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs,
                                     float* dy, double* loss) {
    return error_of(AbsoluteLoss{}, y, targets, batch, outputs, dy, loss);
}
