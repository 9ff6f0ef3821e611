// Group normalisation of images side by side, alone or with ReLU: x [batch, channels, cells, lanes]. Each lane is an
// image with statistics of its own, so that a vector sums W of them at once and nothing is summed across lanes but the
// gradients of weight and bias.

// Which images: n <= W lanes from `lane` on, of one group of one batch.
struct NormVectors {
    int64_t cells, lanes, members;  // of a channel; of a cell; of a group
    int64_t lane;
    int n;

    int64_t step() const { return cells * lanes; }  // floats of a channel
    vf read(const float* from) const { return n == W ? load(from + lane) : load_n(from + lane, n); }
    void write(float* to, vf v) const { n == W ? store(to + lane, v) : store_n(to + lane, v, n); }
};

// The sum of of(i) for cells i < n, four at a time.
template <class Of>
static inline vf sum_vectors(int64_t n, const Of& of) {
    vf s[4] = {zero(), zero(), zero(), zero()};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) s[k] = add(s[k], of(i + k));
    }
    for (; i < n; ++i) s[0] = add(s[0], of(i));
    return add(add(s[0], s[1]), add(s[2], s[3]));
}

// Sums of a group are of its channels' sums, so that they are no longer than a plane.
template <class Of>
static inline vf sum_group(const NormVectors& g, const float* x, const Of& of) {
    vf total = zero();
    for (int64_t c = 0; c < g.members; ++c, x += g.step())
        total = add(total, sum_vectors(g.cells, [&](int64_t i) { return of(g.read(x + i * g.lanes)); }));
    return total;
}

static inline vf inverse_stds(vf variance, float eps) {
    float values[W];
    store(values, variance);
    for (float& value : values) value = inverse_std(value, eps);
    return load(values);
}

template <bool RELU>
static void normalise_vectors(const NormVectors& g, const float* x, const float* weight, const float* bias, float eps,
                              float* y, float* means, float* inv_stds) {
    const vf count = set1(float(g.members * g.cells));
    const vf mean = div(sum_group(g, x, [&](vf v) { return v; }), count);
    const vf variance = div(sum_group(g, x, [&](vf v) { return mul(sub(v, mean), sub(v, mean)); }), count);
    const vf inv_std = inverse_stds(variance, eps);
    g.write(means, mean), g.write(inv_stds, inv_std);
    for (int64_t c = 0; c < g.members; ++c) {
        const vf scale = mul(set1(weight[c]), inv_std), shift = set1(bias[c]);
        for (int64_t i = 0; i < g.cells; ++i, x += g.lanes, y += g.lanes) {
            const vf z = fma(sub(g.read(x), mean), scale, shift);
            g.write(y, RELU ? max(z, zero()) : z);
        }
    }
}

// of(d, xhat) for a cell of a channel, where d is dy or, with ReLU, what z lets through of it.
template <bool RELU>
struct SentVectors {
    vf mean, inv_std, scale, shift;

    template <class Of>
    vf at(const NormVectors& g, const float* dy, const float* x, const Of& of) const {
        const vf centred = sub(g.read(x), mean), d = g.read(dy);
        return of(RELU ? keep_positive(d, fma(centred, scale, shift)) : d, mul(centred, inv_std));
    }
};

// `sums`: of each channel those of d and of d * xhat over its cells and these lanes, added to.
template <bool RELU>
static void denormalise_vectors(const NormVectors& g, const float* dy, const float* x, const float* weight,
                                const float* bias, const float* means, const float* inv_stds, float* dx, float* sums) {
    const vf mean = g.read(means), inv_std = g.read(inv_stds);
    vf d_total = zero(), dx_total = zero();
    for (int64_t c = 0; c < g.members; ++c) {
        const SentVectors<RELU> sent{mean, inv_std, mul(set1(weight[c]), inv_std), set1(bias[c])};
        const float *const from = dy + c * g.step(), *const seen = x + c * g.step();
        const auto summed = [&](const auto& of) {
            return sum_vectors(g.cells,
                               [&](int64_t i) { return sent.at(g, from + i * g.lanes, seen + i * g.lanes, of); });
        };
        const vf d = summed([&](vf d_, vf) { return d_; }),
                 d_xhat = summed([&](vf d_, vf xhat) { return mul(d_, xhat); });
        d_total = fma(set1(weight[c]), d, d_total), dx_total = fma(set1(weight[c]), d_xhat, dx_total);
        sums[2 * c] += sum(d), sums[2 * c + 1] += sum(d_xhat);
    }
    const vf share = div(inv_std, set1(float(g.members * g.cells)));
    const vf offset = mul(d_total, share), slope = mul(dx_total, share);
    for (int64_t c = 0; c < g.members; ++c) {
        const SentVectors<RELU> sent{mean, inv_std, mul(set1(weight[c]), inv_std), set1(bias[c])};
        for (int64_t i = 0; i < g.cells; ++i) {
            const int64_t at = c * g.step() + i * g.lanes;
            g.write(dx + at, sent.at(g, dy + at, x + at, [&](vf d, vf xhat) {
                return sub(fma(sent.scale, d, sub(zero(), offset)), mul(xhat, slope));
            }));
        }
    }
}

// body(group of all batches, vectors) for every group, by threads.
template <class Body>
static void each_group_vectors(const efl_norm_lanes& shape, const Body& body) {
    const int64_t members = shape.channels / shape.groups;
    split(shape.batch * shape.groups, members * shape.cells * shape.lanes, [=](int64_t first, int64_t last) {
        for (int64_t group = first; group < last; ++group)
            for (int64_t lane = 0; lane < shape.lanes; lane += W)
                body(group, NormVectors{shape.cells, shape.lanes, members, lane, int(least(W, shape.lanes - lane))});
    });
}

static efl_status groupnorm_lanes_forward_f32(const efl_norm_lanes* shape, const float* x, const float* weight,
                                              const float* bias, float eps, float* y, float* mean, float* inv_std) {
    const auto normalise = shape->relu ? normalise_vectors<true> : normalise_vectors<false>;
    each_group_vectors(*shape, [&](int64_t group, const NormVectors& g) {
        const int64_t at = group * g.members * g.step(), c = group % shape->groups * g.members, s = group * g.lanes;
        normalise(g, x + at, weight + c, bias + c, eps, y + at, mean + s, inv_std + s);
    });
    return EFL_OK;
}

static efl_status groupnorm_lanes_backward_f32(const efl_norm_lanes* shape, const float* dy, const float* x,
                                               const float* weight, const float* bias, const float* mean,
                                               const float* inv_std, float* dx, float* dweight, float* dbias) {
    float* sums = nullptr;
    const int64_t channels = shape->channels, count = 2 * shape->batch * channels;
    if (!place([&](Carve& carve) { sums = carve.take<float>(count); })) return EFL_NO_MEMORY;
    zero_floats(sums, count);
    const auto denormalise = shape->relu ? denormalise_vectors<true> : denormalise_vectors<false>;
    each_group_vectors(*shape, [&](int64_t group, const NormVectors& g) {
        const int64_t at = group * g.members * g.step(), c = group % shape->groups * g.members, s = group * g.lanes;
        denormalise(g, dy + at, x + at, weight + c, bias + c, mean + s, inv_std + s, dx + at,
                    sums + 2 * group * g.members);
    });
    for (int64_t c = 0; c < channels && dweight; ++c) {
        double weights = 0, biases = 0;
        for (int64_t n = 0; n < shape->batch; ++n) {
            biases += double(sums[2 * (n * channels + c)]);
            weights += double(sums[2 * (n * channels + c) + 1]);
        }
        dweight[c] = float(weights), dbias[c] = float(biases);
    }
    return EFL_OK;
}
