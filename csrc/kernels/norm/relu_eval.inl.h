// Batch norm by running statistics with ReLU or ReLU6, and where asked a 2 x 2 max pool of stride 2, in one pass over
// each plane; forward alone. Every value is that of the three kernels one after the other, bit for bit: each cell is
// normalised as in plain.inl.h and rectified before cells are compared as a max pool compares them.

// What one of two cells a pool keeps: the first of equals, and of NaN the later.
static inline vf larger(vf first, vf next) { return if_above(next, first, next, first); }

// As Rectified. Top and bottom are compared before left and right, which saves half the shuffles: none of the values is
// negative, and among zeros of either sign the first cell of all is kept in any such order.
template <class R>
struct RectifiedByRunning {
    vf mean, inv_std, weight, bias;

    explicit RectifiedByRunning(const Affine& f)
        : mean(set1(f.mean)), inv_std(set1(f.inv_std)), weight(set1(f.weight)), bias(set1(f.bias)) {}
    explicit RectifiedByRunning(const ChannelLanes& f)
        : mean(f.mean), inv_std(f.inv_std), weight(f.weight), bias(f.bias) {}
    vf at(vf x) const { return R{}.value(fma(weight, mul(sub(x, mean), inv_std), bias)); }
    vf largest(vf a, vf b, vf c, vf d) const {
        a = larger(at(a), at(c));
        b = larger(at(b), at(d));
        return larger(evens(a, b), odds(a, b));
    }
};

// Running statistics of channels, and what is done with them.
struct Running {
    const float *weight, *bias, *mean, *var;
    float eps;

    float inv_std(int64_t c) const { return inverse_std(var[c], eps); }
    Affine of(int64_t c) const { return Affine{mean[c], inv_std(c), weight[c], bias[c]}; }
    ChannelLanes of(const ChannelVector& vector) const {
        float inv_stds[W] = {};
        for (int l = 0; l < vector.n; ++l) inv_stds[l] = inv_std(vector.first + l);
        return ChannelLanes{vector.read(mean), load(inv_stds), vector.read(weight), vector.read(bias)};
    }
};

template <class R>
static void rectify_features(const Running& running, const float* x, int64_t batch, int64_t channels, float* y) {
    each_channel_vector(channels, batch + PLANE_COST, [&](const auto& each) {
        each([&](const ChannelVector& vector) {
            const RectifiedByRunning<R> z(running.of(vector));
            for (int64_t at = 0; at < batch * channels; at += channels)
                vector.write(y + at, z.at(vector.read(x + at)), vector.all());
        });
    });
}

template <class R>
static void rectify_planes(const Running& running, const float* x, int64_t batch, int64_t channels, int64_t height,
                           int64_t width, bool halved, float* y) {
    const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
    split(channels, batch * (inner + PLANE_COST), [=](int64_t first, int64_t last) {
        for (; first < last; first += ABREAST) {  // roots once for all images, and memory nearly in order
            const int64_t end = least(first + ABREAST, last);
            Affine affine[ABREAST];
            for (int64_t c = first; c < end; ++c) affine[c - first] = running.of(c);
            for (int64_t b = 0; b < batch; ++b)
                for (int64_t c = first; c < end; ++c) {
                    const RectifiedByRunning<R> z(affine[c - first]);
                    const int64_t p = b * channels + c;
                    if (halved) halve_norm_plane(z, x + p * inner, height, width, y + p * pooled);
                    else relu_norm_plane(z, x + p * inner, inner, y + p * inner);
                }
        }
    });
}

static efl_status batchnorm_relu_eval_f32(const float* x, const float* weight, const float* bias,
                                          const float* running_mean, const float* running_var, efl_int64 batch,
                                          efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                          efl_int32 relu6, float eps, float* y) {
    const Running running{weight, bias, running_mean, running_var, eps};
    if (height * width == 1) (relu6 ? rectify_features<ReLU6> : rectify_features<ReLU>)(running, x, batch, channels, y);
    else
        (relu6 ? rectify_planes<ReLU6> : rectify_planes<ReLU>)(running, x, batch, channels, height, width, halved != 0,
                                                               y);
    return EFL_OK;
}
