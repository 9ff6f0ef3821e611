// Normalisation of each position over its channels. Vectors are positions side by side, and channels are walked one by
// one: the statistics of a position stay in its lane.

constexpr int VECTORS_ABREAST = 4;

// U full vectors of positions, or one vector of n of them.
template <int U>
struct Positions {
    int n;
    inline vf read(const float* p, int u) const { return U > 1 ? load(p + u * W) : load_n(p, n); }
    inline void write(float* p, int u, vf v) const { U > 1 ? store(p + u * W, v) : store_n(p, v, n); }
};

// body(Positions, first position of the image, image) for all positions of so many images, shared among the threads.
template <class Body>
static void each_positions(int64_t batch, int64_t channels, int64_t inner, const Body& body) {
    constexpr int64_t block = VECTORS_ABREAST * W;
    const int64_t blocks = (inner + block - 1) / block;
    split(batch * blocks, least(inner, block) * channels, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / blocks, begin = i % blocks * block;
            if (begin + block <= inner) {
                body(Positions<VECTORS_ABREAST>{W}, begin, b);
                continue;
            }
            for (int64_t at = begin; at < inner; at += W) body(Positions<1>{int(least(W, inner - at))}, at, b);
        }
    });
}

// 1 / sqrt(v + eps) of each lane.
template <int U>
static inline void inverse_deviations(vf* v, float eps) {
    float lanes[U * W];
    for (int u = 0; u < U; ++u) store(lanes + u * W, v[u]);
    for (int i = 0; i < U * W; ++i) lanes[i] = 1.0f / std::sqrt(lanes[i] + eps);
    for (int u = 0; u < U; ++u) v[u] = load(lanes + u * W);
}

// mean and 1 / deviation of each position, over the channels from x on.
template <int U>
static inline void position_statistics(Positions<U> at, const float* x, int64_t channels, int64_t inner, float eps,
                                       vf* mean, vf* inv_std) {
    const vf share = set1(1.0f / float(channels));
    for (int u = 0; u < U; ++u) mean[u] = inv_std[u] = zero();
    for (int64_t c = 0; c < channels; ++c)
        for (int u = 0; u < U; ++u) mean[u] = add(mean[u], at.read(x + c * inner, u));
    for (int u = 0; u < U; ++u) mean[u] = mul(mean[u], share);
    for (int64_t c = 0; c < channels; ++c)
        for (int u = 0; u < U; ++u) {
            const vf d = sub(at.read(x + c * inner, u), mean[u]);
            inv_std[u] = fma(d, d, inv_std[u]);
        }
    for (int u = 0; u < U; ++u) inv_std[u] = mul(inv_std[u], share);
    inverse_deviations<U>(inv_std, eps);
}

static efl_status layernorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                        efl_int64 channels, efl_int64 inner, float eps, float* y, float* xhat,
                                        float* inv_std) {
    each_positions(batch, channels, inner, [&]<int U>(Positions<U> at, int64_t position, int64_t b) {
        const int64_t from = b * channels * inner + position;
        vf mean[U], scale[U];
        position_statistics(at, x + from, channels, inner, eps, mean, scale);
        for (int u = 0; u < U; ++u) at.write(inv_std + b * inner + position, u, scale[u]);
        for (int64_t c = 0; c < channels; ++c) {
            const vf gain = set1(weight[c]), offset = set1(bias[c]);
            for (int u = 0; u < U; ++u) {
                const vf normal = mul(sub(at.read(x + from + c * inner, u), mean[u]), scale[u]);
                if (xhat) at.write(xhat + from + c * inner, u, normal);
                at.write(y + from + c * inner, u, fma(gain, normal, offset));
            }
        }
    });
    return EFL_OK;
}

// dx of some positions: inv_std (g - mean of g - xhat mean of g xhat) with g = weight dy.
template <int U>
static inline void position_gradients(Positions<U> at, const float* dy, const float* xhat, const float* weight,
                                      const float* inv_std, int64_t channels, int64_t inner, float* dx) {
    const vf share = set1(1.0f / float(channels));
    vf sum_g[U], sum_gx[U];
    for (int u = 0; u < U; ++u) sum_g[u] = sum_gx[u] = zero();
    for (int64_t c = 0; c < channels; ++c)
        for (int u = 0; u < U; ++u) {
            const vf g = mul(set1(weight[c]), at.read(dy + c * inner, u));
            sum_g[u] = add(sum_g[u], g);
            sum_gx[u] = fma(g, at.read(xhat + c * inner, u), sum_gx[u]);
        }
    for (int u = 0; u < U; ++u) sum_g[u] = mul(sum_g[u], share), sum_gx[u] = mul(sum_gx[u], share);
    for (int64_t c = 0; c < channels; ++c)
        for (int u = 0; u < U; ++u) {
            const vf g = mul(set1(weight[c]), at.read(dy + c * inner, u));
            const vf pulled = fma(at.read(xhat + c * inner, u), sum_gx[u], sum_g[u]);
            at.write(dx + c * inner, u, mul(at.read(inv_std, u), sub(g, pulled)));
        }
}

static efl_status layernorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                         efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs,
                                         float* dx, float* dweight, float* dbias) {
    split(count_of(outs, channels), batch * (inner + PLANE_COST), [=](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) {
            NormSums total;
            for (int64_t b = 0; b < batch; ++b) {
                const int64_t at = (b * channels + id_of(outs, j)) * inner;
                plane_sums(dy + at, xhat + at, inner, &total.dz, &total.dz_xhat);
            }
            dweight[j] = float(total.dz_xhat);
            dbias[j] = float(total.dz);
        }
    });
    each_positions(batch, channels, inner, [&](auto at, int64_t position, int64_t b) {
        const int64_t from = b * channels * inner + position;
        position_gradients(at, dy + from, xhat + from, weight, inv_std + b * inner + position, channels, inner,
                           dx + from);
    });
    return EFL_OK;
}
