// Smooth activations: a vector of y for a vector of x, and the slope from what is saved, y or x.

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

// x tanh(log(1 + e^x)). The tanh is n / d: with e = e^x, n = e (e + 2) and d = n + 2, and divided by e^2x where x is
// positive.
struct MishParts {
    vf e, n, rest, d;

    explicit inline MishParts(vf x) {
        const vf two = set1(2.0f);
        e = exp_nonpositive(minus_magnitude(x));
        n = if_up_to(x, zero(), mul(e, add(e, two)), fma(two, e, set1(1.0f)));
        rest = if_up_to(x, zero(), two, mul(two, mul(e, e)));  // d (1 - tanh), without the cancellation
        d = add(n, rest);
    }
};

struct Mish {
    inline vf value(vf x) const {
        const MishParts m(x);
        return mul(x, div(m.n, m.d));
    }
    inline vf slope(vf x) const {
        const MishParts m(x);
        const vf t = div(m.n, m.d), steep = mul(div(m.rest, m.d), add(set1(1.0f), t));
        return fma(mul(x, sigmoid_of(x, m.e)), steep, t);
    }
};

struct ELU {
    vf alpha;

    inline vf value(vf x) const { return if_up_to(x, zero(), mul(alpha, expm1_nonpositive(min(x, zero()))), x); }
    inline vf slope(vf x) const { return if_up_to(x, zero(), mul(alpha, exp_nonpositive(min(x, zero()))), set1(1.0f)); }
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
        case 7: return use(Softplus{set1(beta), set1(1.0f / beta), set1(threshold)});
        default: return use(Mish{});
    }
}

constexpr int64_t ACTIVATION_WORK = 8;  // times that of an addition

constexpr int ABREAST_VECTORS = 4;

template <class F>
static inline void activate_run(const F& f, const float* x, int64_t n, float* y) {
    int64_t i = 0;
    for (; i + ABREAST_VECTORS * W <= n; i += ABREAST_VECTORS * W) {
        vf v[ABREAST_VECTORS];
        EFL_UNROLL
        for (int k = 0; k < ABREAST_VECTORS; ++k) v[k] = load(x + i + k * W);
        EFL_UNROLL
        for (int k = 0; k < ABREAST_VECTORS; ++k) v[k] = f.value(v[k]);
        EFL_UNROLL
        for (int k = 0; k < ABREAST_VECTORS; ++k) store(y + i + k * W, v[k]);
    }
    for (; i + W <= n; i += W) store(y + i, f.value(load(x + i)));
    if (i < n) store_n(y + i, f.value(load_n(x + i, int(n - i))), int(n - i));
}

template <class F>
static inline void activate(const F& f, const float* x, int64_t count, float* y) {
    const Runs runs(1, count, true);
    split(runs.count, runs.length * ACTIVATION_WORK, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) activate_run(f, x + runs.at(i), runs.size(i), y + runs.at(i));
    });
}

static efl_status activation_forward_f32(const float* x, efl_int64 count, efl_int32 kind, float beta, float threshold,
                                         float* y) {
    with_activation(kind, beta, threshold, [&](const auto& f) { activate(f, x, count, y); });
    return EFL_OK;
}

static efl_status elu_forward_f32(const float* x, efl_int64 count, float alpha, float* y) {
    activate(ELU{set1(alpha)}, x, count, y);
    return EFL_OK;
}

template <class F>
static inline void slope_run(const F& f, const float* dy, const float* saved, int64_t n, float* dx) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(dx + i, mul(load(dy + i), f.slope(load(saved + i))));
    const int rest = int(n - i);
    if (rest) store_n(dx + i, mul(load_n(dy + i, rest), f.slope(load_n(saved + i, rest))), rest);
}

template <class F>
static inline void slopes(const F& f, const float* dy, const float* saved, int64_t batch, int64_t channels,
                          int64_t inner, efl_index channels_needed, float* dx) {
    const bool all = !channels_needed.ids;
    const int64_t needed = count_of(channels_needed, channels);
    const Runs runs(batch * channels, inner, all);
    split(all ? runs.count : batch * needed, runs.length * ACTIVATION_WORK, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t run = all ? i : i / needed * channels + id_of(channels_needed, i % needed);
            slope_run(f, dy + runs.at(run), saved + runs.at(run), runs.size(run), dx + runs.at(run));
        }
    });
}

static efl_status activation_backward_f32(const float* dy, const float* saved, efl_int64 batch, efl_int64 channels,
                                          efl_int64 inner, efl_int32 kind, float beta, float threshold,
                                          efl_index channels_needed, float* dx) {
    with_activation(kind, beta, threshold,
                    [&](const auto& f) { slopes(f, dy, saved, batch, channels, inner, channels_needed, dx); });
    return EFL_OK;
}

static efl_status elu_backward_f32(const float* dy, const float* x, efl_int64 batch, efl_int64 channels,
                                   efl_int64 inner, float alpha, efl_index channels_needed, float* dx) {
    slopes(ELU{set1(alpha)}, dy, x, batch, channels, inner, channels_needed, dx);
    return EFL_OK;
}

// ---- PReLU

// The weight of a channel.
struct Slopes {
    const float* weight;
    int64_t count;
    inline float of(int64_t channel) const { return weight[count == 1 ? 0 : channel]; }
};

static void prelu_run(float slope, const float* x, int64_t n, float* y) {
    const LeakyReLU f{set1(slope)};
    int64_t k = 0;
    for (; k + W <= n; k += W) store(y + k, f.value(load(x + k)));
    if (k < n) store_n(y + k, f.value(load_n(x + k, int(n - k))), int(n - k));
}

// Of values without pixels, each channel with a slope of its own.
static void prelu_features(const float* x, const float* weight, int64_t batch, int64_t channels, float* y) {
    split(batch, channels, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            for (int64_t c = 0; c < channels; c += W) {
                const ChannelVector vector{c, int(least(W, channels - c))};
                const LeakyReLU f{vector.read(weight)};
                vector.write(y + b * channels, f.value(vector.read(x + b * channels)), vector.all());
            }
    });
}

static efl_status prelu_forward_f32(const float* x, const float* weight, efl_int64 weights, efl_int64 batch,
                                    efl_int64 channels, efl_int64 inner, float* y) {
    if (inner == 1 && weights > 1) {
        prelu_features(x, weight, batch, channels, y);
        return EFL_OK;
    }
    const Slopes slopes{weight, weights};
    const Runs runs(batch * channels, inner, weights == 1);
    split(runs.count, runs.length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            prelu_run(slopes.of(i % channels), x + runs.at(i), runs.size(i), y + runs.at(i));
    });
    return EFL_OK;
}

static inline vf prelu_grad(vf slope, vf dy, vf x) { return if_up_to(x, zero(), mul(slope, dy), dy); }
static inline vf prelu_share(vf dy, vf x) { return if_above(x, zero(), zero(), mul(dy, x)); }

// dx of a plane.
static inline void prelu_plane(float slope, const float* dy, const float* x, int64_t n, float* dx) {
    const vf a = set1(slope);
    int64_t k = 0;
    for (; k + W <= n; k += W) store(dx + k, prelu_grad(a, load(dy + k), load(x + k)));
    const int rest = int(n - k);
    if (rest) store_n(dx + k, prelu_grad(a, load_n(dy + k, rest), load_n(x + k, rest)), rest);
}

// The sum of dy x where x is not positive.
static inline double prelu_sum(const float* dy, const float* x, int64_t n) {
    vf even = zero(), odd = zero();
    int64_t k = 0;
    for (; k + 2 * W <= n; k += 2 * W) {
        even = add(even, prelu_share(load(dy + k), load(x + k)));
        odd = add(odd, prelu_share(load(dy + k + W), load(x + k + W)));
    }
    for (; k < n; k += W) {
        const int rest = int(least(W, n - k));
        even = add(even, prelu_share(load_n(dy + k, rest), load_n(x + k, rest)));
    }
    return double(sum(add(even, odd)));
}

// dx and dweight of values without pixels, a slope for each channel.
static void prelu_features_backward(const float* dy, const float* x, const float* weight, int64_t batch,
                                    int64_t channels, efl_index channels_needed, efl_index outs, float* dx,
                                    float* dweight) {
    each_channel_vector(channels, 2 * batch, [&](const auto& each) {
        Members needed{channels_needed}, trained{outs};
        each([&](const ChannelVector& vector) {
            const unsigned here = needed.of(vector), updated = trained.of(vector);
            const vf slope = vector.read(weight);
            double total[1][W];
            const auto add_share = [&](int64_t b, vf* s) {
                s[0] = add(s[0], prelu_share(vector.read(dy + b * channels), vector.read(x + b * channels)));
            };
            if (updated) sum_examples<1>(batch, add_share, total);
            if (updated) write_compact(dweight + trained.position, total[0], updated);
            for (int64_t b = 0; here && b < batch; ++b) {
                const int64_t at = b * channels;
                vector.write(dx + at, prelu_grad(slope, vector.read(dy + at), vector.read(x + at)), here);
            }
        });
    });
}

// The gradient of the one slope that all channels have.
static double prelu_total(const float* dy, const float* x, int64_t count) {
    double total = 0;
    const Runs runs(1, count, true);
    for (int64_t i = 0; i < runs.count; ++i) total += prelu_sum(dy + runs.at(i), x + runs.at(i), runs.size(i));
    return total;
}

static void prelu_grad_weight(const float* dy, const float* x, int64_t weights, int64_t batch, int64_t channels,
                              int64_t inner, efl_index outs, float* dweight) {
    split(count_of(outs, weights), batch * inner, [=](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t b = 0, c = id_of(outs, j); b < batch && weights > 1; ++b)
                total += prelu_sum(dy + (b * channels + c) * inner, x + (b * channels + c) * inner, inner);
            dweight[j] = float(weights > 1 ? total : prelu_total(dy, x, batch * channels * inner));
        }
    });
}

static efl_status prelu_backward_f32(const float* dy, const float* x, const float* weight, efl_int64 weights,
                                     efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index channels_needed,
                                     efl_index outs, float* dx, float* dweight) {
    if (inner == 1 && weights > 1) {
        prelu_features_backward(dy, x, weight, batch, channels, channels_needed, outs, dx, dweight);
        return EFL_OK;
    }
    prelu_grad_weight(dy, x, weights, batch, channels, inner, outs, dweight);
    const Slopes slopes{weight, weights};
    const int64_t needed = count_of(channels_needed, channels);
    const bool merges = weights == 1 && !channels_needed.ids;
    const Runs runs(batch * channels, inner, merges);
    split(merges ? runs.count : batch * needed, runs.length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t c = merges ? 0 : id_of(channels_needed, i % needed),
                          run = merges ? i : i / needed * channels + c, at = runs.at(run);
            prelu_plane(slopes.of(c), dy + at, x + at, runs.size(run), dx + at);
        }
    });
    return EFL_OK;
}
