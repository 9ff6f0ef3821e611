// Normalisation of runs of channels at each position by their root mean square. As in norm/places.inl.h, vectors are
// positions side by side. Contracts: edgefl/kernels/table.py.

// 1 / root mean square of each position, over `width` channels from x on.
template <int U>
static inline void inverse_roots(Positions<U> at, const float* x, int64_t width, int64_t inner, float eps, vf* inv) {
    for (int u = 0; u < U; ++u) inv[u] = zero();
    for (int64_t c = 0; c < width; ++c)
        for (int u = 0; u < U; ++u) {
            const vf v = at.read(x + c * inner, u);
            inv[u] = fma(v, v, inv[u]);
        }
    const vf share = set1(1.0f / float(width));
    for (int u = 0; u < U; ++u) inv[u] = mul(inv[u], share);
    inverse_deviations<U>(inv, eps);
}

static efl_status rmsnorm_forward_f32(const float* x, const float* weight, efl_int64 batch, efl_int64 groups,
                                      efl_int64 width, efl_int64 inner, float offset, float eps, float* y,
                                      float* inv_rms) {
    each_positions(batch * groups, width, inner, [&]<int U>(Positions<U> at, int64_t position, int64_t run) {
        const int64_t from = run * width * inner + position;
        vf scale[U];
        inverse_roots(at, x + from, width, inner, eps, scale);
        for (int u = 0; u < U; ++u) at.write(inv_rms + run * inner + position, u, scale[u]);
        for (int64_t c = 0; c < width; ++c) {
            const vf gain = set1(offset + weight[c]);
            for (int u = 0; u < U; ++u)
                at.write(y + from + c * inner, u, mul(gain, mul(at.read(x + from + c * inner, u), scale[u])));
        }
    });
    return EFL_OK;
}

// dx = inv (g - x inv mean of g x inv) with g = (offset + weight) dy.
template <int U>
static inline void root_gradients(Positions<U> at, const float* dy, const float* x, const float* weight, float offset,
                                  const float* inv_rms, int64_t width, int64_t inner, float* dx) {
    const vf share = set1(1.0f / float(width));
    vf inv[U], sum[U];
    for (int u = 0; u < U; ++u) inv[u] = at.read(inv_rms, u), sum[u] = zero();
    for (int64_t c = 0; c < width; ++c)
        for (int u = 0; u < U; ++u) {
            const vf g = mul(set1(offset + weight[c]), at.read(dy + c * inner, u));
            sum[u] = fma(g, mul(at.read(x + c * inner, u), inv[u]), sum[u]);
        }
    for (int u = 0; u < U; ++u) sum[u] = mul(sum[u], share);
    for (int64_t c = 0; c < width; ++c)
        for (int u = 0; u < U; ++u) {
            const vf g = mul(set1(offset + weight[c]), at.read(dy + c * inner, u));
            const vf pulled = mul(mul(at.read(x + c * inner, u), inv[u]), sum[u]);
            at.write(dx + c * inner, u, mul(inv[u], sub(g, pulled)));
        }
}

// sum of dy x inv_rms over a row of positions.
static inline double normal_sum(const float* dy, const float* x, const float* inv_rms, int64_t inner) {
    vf total = zero();
    int64_t i = 0;
    for (; i + W <= inner; i += W) total = fma(load(dy + i), mul(load(x + i), load(inv_rms + i)), total);
    if (i < inner) {
        const int n = int(inner - i);
        total = fma(load_n(dy + i, n), mul(load_n(x + i, n), load_n(inv_rms + i, n)), total);
    }
    return double(sum(total));
}

static efl_status rmsnorm_backward_f32(const float* dy, const float* x, const float* weight, const float* inv_rms,
                                       efl_int64 batch, efl_int64 groups, efl_int64 width, efl_int64 inner,
                                       float offset, efl_index outs, float* dx, float* dweight) {
    split(count_of(outs, width), batch * groups * (inner + PLANE_COST), [=](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t run = 0; run < batch * groups; ++run) {
                const int64_t at = (run * width + id_of(outs, j)) * inner;
                total += normal_sum(dy + at, x + at, inv_rms + run * inner, inner);
            }
            dweight[j] = float(total);
        }
    });
    each_positions(batch * groups, width, inner, [&](auto at, int64_t position, int64_t run) {
        const int64_t from = run * width * inner + position;
        root_gradients(at, dy + from, x + from, weight, offset, inv_rms + run * inner + position, width, inner,
                       dx + from);
    });
    return EFL_OK;
}
