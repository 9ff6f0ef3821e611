// Batch and group normalisation by themselves. The backward pass reads xhat, which is stored once.

// y = z; xhat may be NULL.
static inline void normalise(const Affine& f, const float* x, int64_t n, float* y, float* xhat) {
    const vf m = set1(f.mean), s = set1(f.inv_std), w = set1(f.weight), c = set1(f.bias);
    const auto value = [=](int64_t i) { return mul(sub(load(x + i), m), s); };
    int64_t i = 0;
    if constexpr (TURN > 1) {
        for (; i + TURN * W <= n; i += TURN * W) {
            vf h[TURN];
            EFL_UNROLL
            for (int k = 0; k < TURN; ++k) h[k] = value(i + k * W);
            EFL_UNROLL
            for (int k = 0; xhat && k < TURN; ++k) store(xhat + i + k * W, h[k]);
            EFL_UNROLL
            for (int k = 0; k < TURN; ++k) store(y + i + k * W, fma(w, h[k], c));
        }
    }
    for (; i + W <= n; i += W) {
        const vf h = value(i);
        if (xhat) store(xhat + i, h);
        store(y + i, fma(w, h, c));
    }
    if (i == n) return;
    const int rest = int(n - i);
    const vf h = mul(sub(load_n(x + i, rest), m), s);
    if (xhat) store_n(xhat + i, h, rest);
    store_n(y + i, fma(w, h, c), rest);
}

static inline void denormalise(const AffineGradient& k, const float* dy, const float* xhat, int64_t n, float* dx) {
    const vf a = set1(k.gain), b = set1(-k.offset), c = set1(-k.slope);
    const int64_t i =
        write_vectors(n, dx, [=](int64_t at) { return fma(a, load(dy + at), fma(c, load(xhat + at), b)); });
    const int rest = int(n - i);
    if (rest) store_n(dx + i, fma(a, load_n(dy + i, rest), fma(c, load_n(xhat + i, rest), b)), rest);
}

static efl_status batchnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                        efl_int64 channels, efl_int64 inner, float eps, float momentum,
                                        float* running_mean, float* running_var, float* y, float* xhat,
                                        float* inv_std) {
    const BatchStatistics statistics{weight, bias, eps, momentum, running_mean, running_var, nullptr, inv_std};
    if (inner == 1)
        batchnorm_features(x, batch, channels, statistics,
                           [&](const ChannelVector& vector, const ChannelLanes& f, int64_t at) {
                               const vf h = mul(sub(vector.read(x + at), f.mean), f.inv_std);
                               vector.write(xhat + at, h, vector.all());
                               vector.write(y + at, fma(f.weight, h, f.bias), vector.all());
                           });
    else
        batchnorm_planes(x, batch, channels, inner, statistics, [&](const PlaneRun& run, const Affine& f) {
            each_plane_of(run, inner, [&](int64_t at) { normalise(f, x + at, inner, y + at, xhat + at); });
        });
    return EFL_OK;
}

static efl_status batchnorm_eval_f32(const float* x, const float* weight, const float* bias, const float* running_mean,
                                     const float* running_var, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                     float eps, float* y) {
    split(batch * channels, inner, [=](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) {
            const int64_t c = p % channels;
            const Affine f{running_mean[c], inverse_std(running_var[c], eps), weight[c], bias[c]};
            normalise(f, x + p * inner, inner, y + p * inner, nullptr);
        }
    });
    return EFL_OK;
}

static efl_status batchnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                         efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                         efl_index channels_needed, efl_index outs, float* dx, float* dweight,
                                         float* dbias) {
    if (inner == 1)
        batchnorm_features_backward(weight, nullptr, nullptr, inv_std, batch, channels, channels_needed, outs, dx,
                                    dweight, dbias, [&](const ChannelVector& vector, const ChannelLanes&, int64_t at) {
                                        return FeatureGrad{vector.read(dy + at), vector.read(xhat + at)};
                                    });
    else
        batchnorm_gradients(
            weight, nullptr, nullptr, inv_std, batch, channels, inner, channels_needed, outs, dweight, dbias,
            [&](const PlaneRun& run, const Affine&, NormSums* s) {
                const int64_t at = run.first * inner;
                planes_sums(dy + at, xhat + at, run.count, run.step * inner, inner, &s->dz, &s->dz_xhat);
            },
            [&](const PlaneRun& run, const Affine&, const AffineGradient& k) {
                each_plane_of(run, inner, [&](int64_t at) { denormalise(k, dy + at, xhat + at, inner, dx + at); });
            });
    return EFL_OK;
}

static efl_status groupnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                        efl_int64 channels, efl_int64 inner, efl_int64 groups, float eps, float* y,
                                        float* xhat, float* inv_std) {
    const int64_t size = channels / groups;
    if (inner == 1)
        each_normal_group(
            x, batch * groups, size, size + PLANE_COST, eps, nullptr, inv_std, [&](int64_t g, float mean) {
                const int64_t c = g % groups * size, at = g * size;
                normalise_run(mean, inv_std[g], weight + c, bias + c, x + at, size, y + at, xhat ? xhat + at : nullptr);
            });
    else
        groupnorm_planes(x, weight, bias, batch, channels, inner, groups, eps, nullptr, inv_std,
                         [&](const PlaneRun& run, const Affine& f) {
                             const int64_t at = run.first * inner;
                             normalise(f, x + at, inner, y + at, xhat ? xhat + at : nullptr);
                         });
    return EFL_OK;
}

static efl_status groupnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                         efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_int64 groups,
                                         efl_index groups_needed, efl_index outs, float* dx, float* dweight,
                                         float* dbias) {
    if (inner == 1) {
        groupnorm_features_backward(dy, xhat, weight, inv_std, batch, channels, groups, groups_needed, outs, dx,
                                    dweight, dbias);
        return EFL_OK;
    }
    return groupnorm_gradients(
        weight, nullptr, nullptr, inv_std, batch, channels, inner, groups, groups_needed, outs, dweight, dbias,
        [&](const PlaneRun& run, const Affine&, NormSums* s) {
            const int64_t at = run.first * inner;
            planes_sums(dy + at, xhat + at, run.count, run.step * inner, inner, &s->dz, &s->dz_xhat);
        },
        [&](const PlaneRun& run, const Affine&, const AffineGradient& k) {
            each_plane_of(run, inner, [&](int64_t at) { denormalise(k, dy + at, xhat + at, inner, dx + at); });
        });
}
