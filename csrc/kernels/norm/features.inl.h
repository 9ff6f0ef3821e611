// Batch norm of values without pixels, x [batch, channels], with lanes over channels; and group norm of them, whose
// groups are runs of memory. What the other files do to a plane with one weight is done here to vectors of weights.

// What a vector of channels is normalised by.
struct ChannelLanes {
    vf mean, inv_std, weight, bias;
};

// ---- batch norm

// write(vector, lanes, at) for every vector of every example, whose floats start at `at`, after the statistics.
template <class Write>
static void batchnorm_features(const float* x, int64_t batch, int64_t channels, const BatchStatistics& statistics,
                               const Write& write) {
    each_channel_vector(channels, batch + PLANE_COST, [&](const auto& each) {
        each([&](const ChannelVector& vector) {
            const vf shift = vector.read(x);
            double sums[2][W];
            sum_examples<2>(
                batch,
                [&](int64_t b, vf* s) {
                    const vf d = sub(vector.read(x + b * channels), shift);
                    s[0] = add(s[0], d), s[1] = fma(d, d, s[1]);
                },
                sums);
            float shifts[W], means[W] = {}, inv_stds[W] = {};
            store(shifts, shift);
            for (int l = 0; l < vector.n; ++l) {
                const Affine f =
                    statistics.of(vector.first + l, Moments(shifts[l], double(batch), sums[0][l], sums[1][l]));
                means[l] = f.mean, inv_stds[l] = f.inv_std;
            }
            const ChannelLanes lanes{load(means), load(inv_stds), vector.read(statistics.weight),
                                     vector.read(statistics.bias)};
            for (int64_t b = 0; b < batch; ++b) write(vector, lanes, b * channels);
        });
    });
}

// The gradient below an activation, and xhat.
struct FeatureGrad {
    vf dz, xhat;
};

// grad(vector, lanes, at): dz and xhat of a vector. mean and bias may be NULL: then 0.
template <class Grad>
static void batchnorm_features_backward(const float* weight, const float* bias, const float* mean, const float* inv_std,
                                        int64_t batch, int64_t channels, efl_index channels_needed, efl_index outs,
                                        float* dx, float* dweight, float* dbias, const Grad& grad) {
    each_channel_vector(channels, batch + PLANE_COST, [&](const auto& each) {
        Members needed{channels_needed}, trained{outs};
        each([&](const ChannelVector& vector) {
            const unsigned here = needed.of(vector), updated = trained.of(vector);
            if (!here) return;
            const ChannelLanes lanes{mean ? vector.read(mean) : zero(), vector.read(inv_std), vector.read(weight),
                                     bias ? vector.read(bias) : zero()};
            double sums[2][W];
            sum_examples<2>(
                batch,
                [&](int64_t b, vf* s) {
                    const FeatureGrad sent = grad(vector, lanes, b * channels);
                    s[0] = add(s[0], sent.dz), s[1] = fma(sent.dz, sent.xhat, s[1]);
                },
                sums);
            float gains[W] = {}, offsets[W] = {}, slopes[W] = {};
            for (int l = 0; l < vector.n; ++l) {
                const NormSums total{sums[0][l], sums[1][l]};
                const int64_t c = vector.first + l;
                const AffineGradient back = affine_gradient(weight[c], inv_std[c], total, double(batch));
                gains[l] = back.gain, offsets[l] = -back.offset, slopes[l] = -back.slope;
            }
            write_compact(dbias + trained.position, sums[0], updated);
            write_compact(dweight + trained.position, sums[1], updated);
            const vf gain = load(gains), offset = load(offsets), slope = load(slopes);
            for (int64_t b = 0; b < batch; ++b) {
                const FeatureGrad sent = grad(vector, lanes, b * channels);
                vector.write(dx + b * channels, fma(gain, sent.dz, fma(slope, sent.xhat, offset)), here);
            }
        });
    });
}

// ---- group norm

// y, and xhat where it is not NULL, of a group whose weights lie at `weight` and `bias`.
static inline void normalise_run(float mean, float inv_std, const float* weight, const float* bias, const float* x,
                                 int64_t n, float* y, float* xhat) {
    const vf m = set1(mean), s = set1(inv_std);
    for (int64_t i = 0; i < n; i += W) {
        const ChannelVector vector{i, int(least(W, n - i))};
        const vf h = mul(sub(vector.read(x), m), s);
        if (xhat) vector.write(xhat, h, vector.all());
        vector.write(y, fma(vector.read(weight), h, vector.read(bias)), vector.all());
    }
}

// The sums of weight dy and of weight dy xhat over a group.
static inline NormSums weighted_sums(const float* weight, const float* dy, const float* xhat, int64_t n) {
    NormSums total;
    for (int64_t from = 0; from < n; from += stretch) {
        vf a[2] = {zero(), zero()}, b[2] = {zero(), zero()};
        const int64_t end = least(n, from + stretch);
        for (int64_t i = from; i < end; i += W) {
            const ChannelVector vector{i, int(least(W, end - i))};
            const vf d = mul(vector.read(weight), vector.read(dy));
            const int k = int(i / W & 1);
            a[k] = add(a[k], d), b[k] = fma(d, vector.read(xhat), b[k]);
        }
        total.dz += double(sum(add(a[0], a[1]))), total.dz_xhat += double(sum(add(b[0], b[1])));
    }
    return total;
}

// dx of a group.
static inline void denormalise_run(const AffineGradient& k, const float* weight, const float* dy, const float* xhat,
                                   int64_t n, float* dx) {
    const vf s = set1(k.gain), offset = set1(-k.offset), slope = set1(-k.slope);
    for (int64_t i = 0; i < n; i += W) {
        const ChannelVector vector{i, int(least(W, n - i))};
        const vf gain = mul(s, vector.read(weight));
        vector.write(dx, fma(gain, vector.read(dy), fma(slope, vector.read(xhat), offset)), vector.all());
    }
}

// dweight and dbias of `outs`: sums over examples of dy xhat and of dy.
static void feature_gradients(const float* dy, const float* xhat, int64_t batch, int64_t channels, efl_index outs,
                              float* dweight, float* dbias) {
    each_channel_vector(channels, batch, [&](const auto& each) {
        Members trained{outs};
        each([&](const ChannelVector& vector) {
            const unsigned updated = trained.of(vector);
            if (!updated) return;
            double sums[2][W];
            sum_examples<2>(
                batch,
                [&](int64_t b, vf* s) {
                    const vf d = vector.read(dy + b * channels);
                    s[0] = add(s[0], d), s[1] = fma(d, vector.read(xhat + b * channels), s[1]);
                },
                sums);
            write_compact(dbias + trained.position, sums[0], updated);
            write_compact(dweight + trained.position, sums[1], updated);
        });
    });
}

static void groupnorm_features_backward(const float* dy, const float* xhat, const float* weight, const float* inv_std,
                                        int64_t batch, int64_t channels, int64_t groups, efl_index groups_needed,
                                        efl_index outs, float* dx, float* dweight, float* dbias) {
    feature_gradients(dy, xhat, batch, channels, outs, dweight, dbias);
    const int64_t size = channels / groups, needed = count_of(groups_needed, groups);
    split(batch * needed, size + PLANE_COST, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / needed, group = id_of(groups_needed, i % needed), g = b * groups + group;
            const float *const w = weight + group * size, *const from = dy + g * size, *const seen = xhat + g * size;
            const NormSums total = weighted_sums(w, from, seen, size);
            const double s = inv_std[g], n = double(size);
            const AffineGradient back{float(s), float(s * total.dz / n), float(s * total.dz_xhat / n)};
            denormalise_run(back, w, from, seen, size, dx + g * size);
        }
    });
}
