// Smooth activations: a word of y for a word of x, and the slope from what is saved, y or x.

struct Sigmoid {
    inline vf value(vf x) const { return sigmoid(x); }
    inline vf slope(vf y) const { return mul(y, sub(set1(1.0f), y)); }
};

struct Tanh {
    inline vf value(vf x) const { return tanh(x); }
    inline vf slope(vf y) const { return sub(set1(1.0f), mul(y, y)); }
};

struct SiLU {
    inline vf value(vf x) const { return mul(x, sigmoid(x)); }
    inline vf slope(vf x) const {
        const vf s = sigmoid(x);
        return mul(s, fma(x, sub(set1(1.0f), s), set1(1.0f)));
    }
};

struct Gelu {
    inline vf value(vf x) const { return mul(x, normal_of(x, half_square(x))); }
    inline vf slope(vf x) const {
        const vf e = half_square(x);
        return fma(mul(x, set1(0.398942280f)), e, normal_of(x, e));
    }
};

// x sigmoid(2 u), u = sqrt(2 / pi) (x + .044715 x^3).
struct GeluTanh {
    static inline vf doubled(vf x) {
        return mul(mul(x, set1(1.59576912f)), fma(mul(x, x), set1(0.044715f), set1(1.0f)));
    }
    inline vf value(vf x) const { return mul(x, sigmoid(doubled(x))); }
    inline vf slope(vf far) const {
        const vf x = at_most(max(far, set1(-30.0f)), 30.0f);  // beyond, terms overflow where the slope is 0 or 1
        const vf s = sigmoid(doubled(x)), inner = fma(mul(x, x), set1(0.134145f), set1(1.0f));
        return fma(mul(mul(x, set1(1.59576912f)), inner), mul(s, sub(set1(1.0f), s)), s);
    }
};

struct Hardsigmoid {
    inline vf value(vf x) const { return at_most(max(fma(x, set1(1.0f / 6), set1(0.5f)), zero()), 1.0f); }
    inline vf slope(vf x) const { return keep_positive(set1(1.0f / 6), sub(set1(3.0f), absolute(x))); }
};

struct Hardswish {
    inline vf value(vf x) const { return mul(x, Hardsigmoid{}.value(x)); }
    inline vf slope(vf x) const {
        const vf three = set1(3.0f), inside = fma(x, set1(1.0f / 3), set1(0.5f));
        return if_above(three, x, keep_positive(inside, add(x, three)), set1(1.0f));
    }
};

struct Softplus {
    vf beta, reciprocal, threshold;

    inline vf value(vf x) const {
        const vf v = mul(beta, x);
        return if_above(v, threshold, x, mul(log1p_exp(v), reciprocal));
    }
    inline vf slope(vf x) const {
        const vf v = mul(beta, x);
        return if_above(v, threshold, set1(1.0f), sigmoid(v));
    }
};

// use(f) with the activation of this number.
template <class Use>
static inline void with_activation(efl_int32 kind, float beta, float threshold, const Use& use) {
    switch (kind) {
        case 0: return use(Sigmoid{});
        case 1: return use(Tanh{});
        case 2: return use(SiLU{});
        case 3: return use(Gelu{});
        case 4: return use(GeluTanh{});
        case 5: return use(Hardsigmoid{});
        case 6: return use(Hardswish{});
        default: return use(Softplus{set1(beta), set1(1.0f / beta), set1(threshold)});
    }
}

constexpr int64_t ACTIVATION_WORK = 8;  // times that of an addition

static efl_status activation_forward_f32(const float* x, efl_int64 count, efl_int32 kind, float beta, float threshold,
                                         float* y) {
    with_activation(kind, beta, threshold, [&](const auto& f) {
        split((count + W - 1) / W, W * ACTIVATION_WORK, [&](int64_t first, int64_t last) {
            for (int64_t i = first * W; i < last * W; i += W) {
                const int n = int(least(W, count - i));
                if (n == W) store(y + i, f.value(load(x + i)));
                else store_n(y + i, f.value(load_n(x + i, n)), n);
            }
        });
    });
    return EFL_OK;
}

template <class F>
static inline void slope_run(const F& f, const float* dy, const float* saved, int64_t n, float* dx) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(dx + i, mul(load(dy + i), f.slope(load(saved + i))));
    const int rest = int(n - i);
    if (rest) store_n(dx + i, mul(load_n(dy + i, rest), f.slope(load_n(saved + i, rest))), rest);
}

static efl_status activation_backward_f32(const float* dy, const float* saved, efl_int64 batch, efl_int64 channels,
                                          efl_int64 inner, efl_int32 kind, float beta, float threshold,
                                          efl_index channels_needed, float* dx) {
    const bool all = !channels_needed.ids;
    const int64_t needed = count_of(channels_needed, channels);
    const Runs runs(batch * channels, inner, all);
    with_activation(kind, beta, threshold, [&](const auto& f) {
        split(all ? runs.count : batch * needed, runs.length * ACTIVATION_WORK, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) {
                const int64_t run = all ? i : i / needed * channels + id_of(channels_needed, i % needed);
                slope_run(f, dy + runs.at(run), saved + runs.at(run), runs.size(run), dx + runs.at(run));
            }
        });
    });
    return EFL_OK;
}

// ---- PReLU

// The weight of a channel.
struct Slopes {
    const float* weight;
    int64_t count;
    inline float of(int64_t channel) const { return weight[count == 1 ? 0 : channel]; }
};

static efl_status prelu_forward_f32(const float* x, const float* weight, efl_int64 weights, efl_int64 batch,
                                    efl_int64 channels, efl_int64 inner, float* y) {
    const Slopes slopes{weight, weights};
    split(batch * channels, inner, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const LeakyReLU f{set1(slopes.of(i % channels))};
            const float* const from = x + i * inner;
            for (int64_t k = 0; k < inner; k += W) {
                const int n = int(least(W, inner - k));
                store_n(y + i * inner + k, f.value(load_n(from + k, n)), n);
            }
        }
    });
    return EFL_OK;
}

// dx of a plane.
static inline void prelu_plane(float slope, const float* dy, const float* x, int64_t n, float* dx) {
    const vf a = set1(slope);
    for (int64_t k = 0; k < n; k += W) {
        const int rest = int(least(W, n - k));
        const vf d = load_n(dy + k, rest);
        store_n(dx + k, if_above(load_n(x + k, rest), zero(), d, mul(a, d)), rest);
    }
}

// The sum of dy x where x is not positive.
static inline double prelu_sum(const float* dy, const float* x, int64_t n) {
    vf total = zero();
    for (int64_t k = 0; k < n; k += W) {
        const int rest = int(least(W, n - k));
        const vf v = load_n(x + k, rest), d = load_n(dy + k, rest);
        total = add(total, if_above(v, zero(), zero(), mul(d, v)));
    }
    return double(sum(total));
}

static efl_status prelu_backward_f32(const float* dy, const float* x, const float* weight, efl_int64 weights,
                                     efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                     efl_index outs, float* dx, float* dweight) {
    const Slopes slopes{weight, weights};
    const int64_t sums = count_of(outs, weights);
    split(sums, batch * inner * (weights == 1 ? channels : 1), [&](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t b = 0; b < batch; ++b)
                for (int64_t c = weights == 1 ? 0 : id_of(outs, j), end = weights == 1 ? channels : c + 1; c < end; ++c)
                    total += prelu_sum(dy + (b * channels + c) * inner, x + (b * channels + c) * inner, inner);
            dweight[j] = float(total);
        }
    });
    const int64_t needed = count_of(channels_needed, channels);
    split(batch * needed, inner, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t c = id_of(channels_needed, i % needed), at = (i / needed * channels + c) * inner;
            prelu_plane(slopes.of(c), dy + at, x + at, inner, dx + at);
        }
    });
    return EFL_OK;
}
