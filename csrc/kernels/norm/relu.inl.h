// Normalisation and ReLU or ReLU6, and where asked a 2 x 2 max pool of stride 2 (halved.inl.h), in one pass over each
// plane; forward and backward.
//
// The backward pass reads x, mean and inv_std and nothing else that is saved: what the ReLU cut and which cell won its
// window is found again from x, with the same comparisons. dx may be x itself: a vector is read before it is written.

// ---- ReLU alone ----

// z with ReLU of a vector of x.
template <class R>
struct RectifiedLine {
    Line line;
    explicit RectifiedLine(const Affine& f) : line(f) {}
    vf at(vf x) const { return R{}.value(line.at(line.centred(x))); }
};

// Each vector by `z`: RectifiedLine, or RectifiedByRunning of relu_eval.inl.h.
template <class Z>
static inline void relu_norm_plane(const Z& z, const float* x, int64_t n, float* y) {
    const Z own = z;  // which no store changes: its numbers stay in registers
    const int64_t i = write_vectors(n, y, [=](int64_t at) { return own.at(load(x + at)); });
    const int rest = int(n - i);
    if (rest) store_n(y + i, own.at(load_n(x + i, rest)), rest);
}

template <class R>
static void relu_norm_sums(const Affine& f, const float* x, const float* dy, const PlaneRun& run, int64_t n,
                           NormSums* sums) {
    const Line line(f);
    RunningSums dzs, products;
    each_plane_of(run, n, [&](int64_t at) {
        int64_t i = at;
        for (; i + SUMS * W <= at + n; i += SUMS * W) {
            vf d[SUMS], dz[SUMS];
            EFL_UNROLL
            for (int k = 0; k < SUMS; ++k) {
                d[k] = line.centred(load(x + i + k * W));
                dz[k] = R{}.passed(load(dy + i + k * W), line.at(d[k]));
            }
            EFL_UNROLL
            for (int k = 0; k < SUMS; ++k) {
                dzs.of[k] = add(dzs.of[k], dz[k]);
                products.of[k] = fma(dz[k], d[k], products.of[k]);
            }
        }
        for (; i < at + n; i += W) {
            const int rest = int(least(W, at + n - i));
            const vf d = line.centred(load_n(x + i, rest)), dz = R{}.passed(load_n(dy + i, rest), line.at(d));
            dzs.of[0] = add(dzs.of[0], dz);
            products.of[0] = fma(dz, d, products.of[0]);
        }
    });
    sums->dz += double(dzs.total());
    sums->dz_xhat += double(products.total()) * double(f.inv_std);
}

template <class R>
static inline void relu_norm_gradient(const Line& line, const GradientLine& back, const float* x, const float* dy,
                                      int64_t n, float* dx) {
    const auto vector = [own = line, of = back](vf v, vf g) {  // copies, which no store changes
        const vf d = own.centred(v);
        return of.at(d, R{}.passed(g, own.at(d)));
    };
    const int64_t i = write_vectors(n, dx, [=](int64_t at) { return vector(load(x + at), load(dy + at)); });
    const int rest = int(n - i);
    if (rest) store_n(dx + i, vector(load_n(x + i, rest), load_n(dy + i, rest)), rest);
}

// ---- one plane of either form ----

template <class R>
struct ReluForward {
    int64_t height, width;
    const Halving* halving;  // NULL: without a pool
    const float* x;
    float* y;

    void operator()(const PlaneRun& run, const Affine& f) const {
        if (halving)
            return by_sign(f, [&](auto best) { halving->forward(Rectified<R, decltype(best)>(f), run, x, y); });
        const int64_t inner = height * width;
        const RectifiedLine<R> z(f);
        each_plane_of(run, inner, [&](int64_t at) { relu_norm_plane(z, x + at, inner, y + at); });
    }
};

template <class R>
struct ReluBackward {
    int64_t height, width;
    const Halving* halving;  // NULL: without a pool
    const float *x, *dy;
    float* dx;

    void operator()(const PlaneRun& run, const Affine& f, NormSums* sums) const {
        if (!halving) return relu_norm_sums<R>(f, x, dy, run, height * width, sums);
        if (f.weight == 0) return halving->template flat_sums<R>(f, run, x, dy, sums);
        by_sign(f, [&](auto best) { halving->template sums<R, decltype(best)>(f, run, x, dy, sums); });
    }
    void operator()(const PlaneRun& run, const Affine& f, const AffineGradient& k) const {
        if (halving)
            return by_sign(f, [&](auto best) { halving->template gradient<R, decltype(best)>(f, k, run, x, dy, dx); });
        const int64_t inner = height * width;
        const Line line(f);
        const GradientLine back(f, k);
        each_plane_of(run, inner,
                      [&](int64_t at) { relu_norm_gradient<R>(line, back, x + at, dy + at, inner, dx + at); });
    }
};

// ---- batch norm

template <class R>
static void batchnorm_rectified(const float* x, int64_t batch, int64_t channels, const BatchStatistics& statistics,
                                const ReluForward<R>& plane) {
    if (plane.height * plane.width > 1)
        return batchnorm_planes(x, batch, channels, plane.height * plane.width, statistics, plane);
    batchnorm_features(
        x, batch, channels, statistics, [&](const ChannelVector& vector, const ChannelLanes& f, int64_t at) {
            const Line line(f);
            vector.write(plane.y + at, R{}.value(line.at(line.centred(vector.read(x + at)))), vector.all());
        });
}

static efl_status batchnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                             efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                             efl_int32 relu6, float eps, float momentum, float* running_mean,
                                             float* running_var, float* y, float* mean, float* inv_std) {
    const BatchStatistics statistics{weight, bias, eps, momentum, running_mean, running_var, mean, inv_std};
    const Halving halving(halved ? batch : 0, channels, height, width);
    const Halving* const pool = halved ? &halving : nullptr;
    if (relu6) batchnorm_rectified(x, batch, channels, statistics, ReluForward<ReLU6>{height, width, pool, x, y});
    else batchnorm_rectified(x, batch, channels, statistics, ReluForward<ReLU>{height, width, pool, x, y});
    return EFL_OK;
}

template <class R>
static void batchnorm_rectified_backward(const float* weight, const float* bias, const float* mean,
                                         const float* inv_std, int64_t batch, int64_t channels,
                                         efl_index channels_needed, efl_index outs, float* dweight, float* dbias,
                                         const ReluBackward<R>& plane) {
    if (plane.height * plane.width > 1)
        return batchnorm_gradients(weight, bias, mean, inv_std, batch, channels, plane.height * plane.width,
                                   channels_needed, outs, dweight, dbias, plane, plane);
    batchnorm_features_backward(weight, bias, mean, inv_std, batch, channels, channels_needed, outs, plane.dx, dweight,
                                dbias, [&](const ChannelVector& vector, const ChannelLanes& f, int64_t at) {
                                    const Line line(f);
                                    const vf d = line.centred(vector.read(plane.x + at));
                                    return FeatureGrad{R{}.passed(vector.read(plane.dy + at), line.at(d)),
                                                       mul(d, f.inv_std)};
                                });
}

static efl_status batchnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                              const float* mean, const float* inv_std, efl_int64 batch,
                                              efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                              efl_int32 relu6, efl_index channels_needed, efl_index outs, float* dx,
                                              float* dweight, float* dbias) {
    const auto backward = [&](const auto& plane) {
        batchnorm_rectified_backward(weight, bias, mean, inv_std, batch, channels, channels_needed, outs, dweight,
                                     dbias, plane);
    };
    const Halving halving(halved ? batch : 0, channels, height, width);
    const Halving* const pool = halved ? &halving : nullptr;
    if (relu6) backward(ReluBackward<ReLU6>{height, width, pool, x, dy, dx});
    else backward(ReluBackward<ReLU>{height, width, pool, x, dy, dx});
    return EFL_OK;
}

// ---- group norm

static efl_status groupnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                             efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                             efl_int64 groups, float eps, float* y, float* mean, float* inv_std) {
    const Halving halving(halved ? 1 : 0, channels, height, width);
    const Halving* const pool = halved ? &halving : nullptr;
    groupnorm_planes(x, weight, bias, batch, channels, height * width, groups, eps, mean, inv_std,
                     ReluForward<ReLU>{.height = height, .width = width, .halving = pool, .x = x, .y = y});
    return EFL_OK;
}

static efl_status groupnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                              const float* mean, const float* inv_std, efl_int64 batch,
                                              efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                              efl_int64 groups, efl_index groups_needed, efl_index outs, float* dx,
                                              float* dweight, float* dbias) {
    const Halving halving(halved ? 1 : 0, channels, height, width);
    const Halving* const pool = halved ? &halving : nullptr;
    const ReluBackward<ReLU> plane{.height = height, .width = width, .halving = pool, .x = x, .dy = dy, .dx = dx};
    return groupnorm_gradients(weight, bias, mean, inv_std, batch, channels, height * width, groups, groups_needed,
                               outs, dweight, dbias, plane, plane);
}
