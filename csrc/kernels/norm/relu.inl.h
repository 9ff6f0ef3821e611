// Normalisation, ReLU or ReLU6, and where asked a 2 x 2 max pool of stride 2, in one pass over each plane; forward and
// backward.
//
// The backward pass reads x, mean and inv_std and nothing else that is saved: what the ReLU cut and which cell won its
// window is found again from x, with the same comparisons. A window's winner is its first cell with the largest
// sign(weight) * x, which is the largest z whatever the rounding. dx may be x itself: a vector is read before it
// is written.

static inline float gain_of(const Affine& f) { return f.weight * f.inv_std; }
static inline float sign_of(float a) { return a > 0 ? 1.0f : a < 0 ? -1.0f : 0.0f; }

// z of a vector of x.
struct Line {
    vf mean, gain, bias;
    explicit Line(const Affine& f) : mean(set1(f.mean)), gain(set1(gain_of(f))), bias(set1(f.bias)) {}
    explicit Line(const ChannelLanes& f) : mean(f.mean), gain(mul(f.weight, f.inv_std)), bias(f.bias) {}
    vf centred(vf x) const { return sub(x, mean); }
    vf at(vf d) const { return fma(gain, d, bias); }
};

// dx of a vector: what its xhat gives, and dz. slope applies to x - mean.
struct GradientLine {
    vf gain, offset, slope;
    GradientLine(const Affine& f, const AffineGradient& k)
        : gain(set1(k.gain)), offset(set1(-k.offset)), slope(set1(-k.slope * f.inv_std)) {}
    vf at(vf d) const { return fma(slope, d, offset); }
    vf at(vf d, vf dz) const { return fma(gain, dz, at(d)); }
};

// ---- ReLU alone ----

// Each vector by `z`: Rectified below, or RectifiedByRunning of relu_eval.inl.h.
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

// ---- ReLU and pooling ----

// Stores the first n <= W / 2 floats of each half of a vector, one after the other. What follows them, of `left` in
// all, may be overwritten.
static inline void store_halves(float* y, vf v, int n, int64_t left) {
    if (2 * n == W) return store(y, v);
    float halves[W + W / 2] = {};
    store(halves, v);
    if (left >= n + W) {
        store(y, v);
        store(y + n, load(halves + W / 2));
    } else {
        store_n(y, v, n);
        store_n(y + n, load_n(halves + W / 2, n), n);
    }
}

// z with ReLU: of a vector of x, and the largest of W windows, half of whose cells each vector of rows has.
template <class R>
struct Rectified {
    Line line;
    vf sign;

    explicit Rectified(const Affine& f) : line(f), sign(set1(sign_of(f.weight))) {}
    vf at(vf x) const { return R{}.value(line.at(line.centred(x))); }
    vf largest(vf a, vf b, vf c, vf d) const {
        a = max(mul(a, sign), mul(c, sign));
        b = max(mul(b, sign), mul(d, sign));
        return at(mul(max(evens(a, b), odds(a, b)), sign));
    }
};

// Of rows of n <= W / 2 windows, two at a time.
template <class Z>
static void halve_norm_plane_narrow(const Z& z, const float* x, int64_t height, int64_t width, float* y) {
    const int64_t out_h = height / 2;
    const int n = int(width / 2);
    const auto row = [&](int64_t r) { return load_n(x + r * width, 2 * n); };
    int64_t oh = 0;
    for (; oh + 2 <= out_h; oh += 2, x += 4 * width, y += 2 * n)
        store_halves(y, z.largest(row(0), row(2), row(1), row(3)), n, (out_h - oh) * n);
    if (oh < out_h) store_n(y, z.largest(row(0), zero(), row(1), zero()), n);
}

// Takes W windows at a time, from the vectors of two rows. Past the end of a row they run into the next, whose outputs
// come later. Rows of half a vector of windows, or a power of two less, are taken in pairs; others would gain nothing,
// and lose a tenth at large batches, as what is read past a row's end brings in the next.
template <class Z>
static void halve_norm_plane(const Z& of_plane, const float* x, int64_t height, int64_t width, float* y) {
    const Z z = of_plane;  // which no store changes: its numbers stay in registers
    const int64_t out_h = height / 2, out_w = width / 2;
    if (2 * out_w <= W && (out_w & (out_w - 1)) == 0) return halve_norm_plane_narrow(z, x, height, width, y);
    const float* const end = x + height * width;
    float* const last = y + out_h * out_w;
    // To the end of the last vectors of a row, in x and in y.
    const int64_t reach = (out_w + W - 1) / W * W;
    for (int64_t oh = 0; oh < out_h; ++oh, x += 2 * width, y += out_w) {
        if (end - (x + width) >= 2 * reach && last - y >= reach) {
            for (int64_t ow = 0; ow < out_w; ow += W) {
                const float *const top = x + 2 * ow, *const bottom = top + width;
                store(y + ow, z.largest(load(top), load(top + W), load(bottom), load(bottom + W)));
            }
            continue;
        }
        for (int64_t ow = 0; ow < out_w; ow += W) {
            const float *const top = x + 2 * ow, *const bottom = top + width;
            vf a, b, c, d;
            load_pair(top, end - top, &a, &b);
            load_pair(bottom, end - bottom, &c, &d);
            const vf found = z.largest(a, b, c, d);
            if (last - (y + ow) >= W) store(y + ow, found);
            else store_n(y + ow, found, int(last - (y + ow)));
        }
    }
}

template <class R>
static bool is_on(float z) {
    return sum(R{}.passed(set1(1.0f), set1(z))) > 0;
}

// With weight 0 all cells of a window are equal, and the first one wins.
template <class R>
static void halve_norm_sums_flat(const Affine& f, const float* x, const float* dy, int64_t height, int64_t width,
                                 NormSums* sums) {
    if (!is_on<R>(f.bias)) return;
    const int64_t out_w = width / 2;
    for (int64_t i = 0; i < height / 2 * out_w; ++i) {
        const double d = double(x[2 * (i / out_w) * width + 2 * (i % out_w)]) - double(f.mean);
        sums->dz += double(dy[i]);
        sums->dz_xhat += double(dy[i]) * d * double(f.inv_std);
    }
}

// The gradients of the output at two rows of n <= W / 2 windows in the order of pairs; of the row at `first` alone
// where there is no second.
static inline vf grads_of_rows(const float* first, const float* second, int64_t n) {
    if (second && 2 * n == W) return in_pair_order(first, second);
    return in_pair_order(load_n(first, int(n)), second ? load_n(second, int(n)) : zero());
}

// Sums of dz and dz * (x - mean) over windows, of which each vector of rows has half the cells.
template <class R>
struct WindowSums {
    Line line;
    vf sign, dz, dz_d;

    explicit WindowSums(const Affine& f) : line(f), sign(set1(sign_of(f.weight))), dz(zero()), dz_d(zero()) {}

    inline void add_windows(vf a, vf b, vf c, vf d, vf g) {
        a = max(mul(a, sign), mul(c, sign));
        b = max(mul(b, sign), mul(d, sign));
        const vf best = line.centred(mul(max(pair_evens(a, b), pair_odds(a, b)), sign));
        const vf grad = R{}.passed(g, line.at(best));
        dz = add(dz, grad);
        dz_d = fma(grad, best, dz_d);
    }
    void write(const Affine& f, NormSums* sums) const {
        sums->dz += double(sum(dz));
        sums->dz_xhat += double(sum(dz_d)) * double(f.inv_std);
    }
};

// Sums the windows of rows of at most a vector, two rows at a time.
template <class R>
static void halve_norm_sums_narrow(const Affine& f, const float* x, const float* dy, int64_t height, int64_t width,
                                   NormSums* sums) {
    WindowSums<R> all(f);
    const int n = int(width / 2 * 2);
    const auto row = [&](int64_t r) { return load_n(x + r * width, n); };
    int64_t oh = 0;
    for (; oh + 2 <= height / 2; oh += 2, dy += n, x += 4 * width)
        all.add_windows(row(0), row(2), row(1), row(3), grads_of_rows(dy, dy + n / 2, n / 2));
    if (oh < height / 2) all.add_windows(row(0), zero(), row(1), zero(), grads_of_rows(dy, nullptr, n / 2));
    all.write(f, sums);
}

template <class R>
static void halve_norm_sums(const Affine& f, const float* x, const float* dy, int64_t height, int64_t width,
                            NormSums* sums) {
    if (f.weight == 0) return halve_norm_sums_flat<R>(f, x, dy, height, width, sums);
    const int64_t used = width / 2 * 2;
    if (used <= W) return halve_norm_sums_narrow<R>(f, x, dy, height, width, sums);
    const int64_t rest = used % (2 * W),
                  whole = used - rest;  // the same for all rows, and so are the masks of the rest
    WindowSums<R> all(f);
    for (int64_t oh = 0; oh < height / 2; ++oh, dy += width / 2, x += 2 * width) {
        for (int64_t w = 0; w < whole; w += 2 * W) {
            const float *top = x + w, *bottom = top + width, *g = dy + w / 2;
            all.add_windows(load(top), load(top + W), load(bottom), load(bottom + W), in_pair_order(g));
        }
        if (!rest) continue;
        vf a, b, c, d;
        float g[W];
        load_pair(x + whole, rest, &a, &b);
        load_pair(x + width + whole, rest, &c, &d);
        store(g, load_n(dy + whole / 2, int(rest) / 2));
        all.add_windows(a, b, c, d, in_pair_order(g));
    }
    all.write(f, sums);
}

// dx of cells in no window.
static void unpooled_gradient(const Line& line, const GradientLine& back, const float* x, int64_t n, float* dx) {
    for (int64_t i = 0; i < n; i += W) {
        const int rest = int(least(W, n - i));
        store_n(dx + i, back.at(line.centred(load_n(x + i, rest))), rest);
    }
}

// W windows of two rows, turned from x into dx.
template <class R>
struct Cells {
    vf x[4];  // in the order of pairs: left and right above, left and right below

    Cells() = default;
    Cells(vf top, vf next_top, vf bottom, vf next_bottom)
        : x{pair_evens(top, next_top), pair_odds(top, next_top), pair_evens(bottom, next_bottom),
            pair_odds(bottom, next_bottom)} {}
    vf low(int row) const { return join_low(x[2 * row], x[2 * row + 1]); }
    vf high(int row) const { return join_high(x[2 * row], x[2 * row + 1]); }

    void differentiate(const Line& line, const GradientLine& back, vf sign, vf g) {
        const vf k0 = mul(x[0], sign), k1 = mul(x[1], sign), k2 = mul(x[2], sign), k3 = mul(x[3], sign);
        const vf best = max(max(k0, k1), max(k2, k3));
        vf dz = R{}.passed(g, line.at(line.centred(mul(best, sign))));
        x[0] = back.at(line.centred(x[0]), keep_equal(dz, k0, best));
        dz = drop_equal(dz, k0, best);
        x[1] = back.at(line.centred(x[1]), keep_equal(dz, k1, best));
        dz = drop_equal(dz, k1, best);
        x[2] = back.at(line.centred(x[2]), keep_equal(dz, k2, best));
        x[3] = back.at(line.centred(x[3]), drop_equal(dz, k2, best));
    }
};

// Two rows of windows of at most a vector, or the last one alone.
template <class R>
static inline void halve_norm_gradient_narrow(const Line& line, const GradientLine& back, vf sign, const float* x,
                                              const float* dy, int64_t width, int64_t rows, float* dx) {
    const int n = int(width / 2 * 2);
    const int64_t next = rows > 1 ? 2 * width : 0;
    Cells<R> cells(load_n(x, n), load_n(x + next, n), load_n(x + width, n), load_n(x + width + next, n));
    cells.differentiate(line, back, sign, grads_of_rows(dy, rows > 1 ? dy + width / 2 : nullptr, n / 2));
    store_n(dx, cells.low(0), n);
    store_n(dx + width, cells.low(1), n);
    if (rows < 2) return;
    store_n(dx + next, cells.high(0), n);
    store_n(dx + width + next, cells.high(1), n);
}

// A row of windows. The last vector of a row overlaps the one before, so its x is read first: dx may be x.
template <class R>
static inline void halve_norm_gradient_row(Line line, GradientLine back, vf sign, const float* x, const float* dy,
                                           int64_t width, float* dx) {
    const int64_t used = width / 2 * 2, end = used - W, rest = used % (2 * W), whole = used - rest;
    const vf last_top = load(x + end), last_bottom = load(x + width + end);
    for (int64_t w = 0; w < whole; w += 2 * W) {
        Cells<R> cells;
        load_apart(x + w, &cells.x[0], &cells.x[1]);
        load_apart(x + width + w, &cells.x[2], &cells.x[3]);
        cells.differentiate(line, back, sign, in_pair_order(dy + w / 2));
        store_joined(dx + w, cells.x[0], cells.x[1]);
        store_joined(dx + width + w, cells.x[2], cells.x[3]);
    }
    if (!rest) return;
    const int64_t first = rest <= W ? end : whole;
    Cells<R> cells(rest <= W ? last_top : load(x + whole), last_top, rest <= W ? last_bottom : load(x + width + whole),
                   last_bottom);
    cells.differentiate(line, back, sign, in_pair_order(dy + first / 2, dy + end / 2));
    store(dx + first, cells.low(0));
    store(dx + end, cells.high(0));
    store(dx + width + first, cells.low(1));
    store(dx + width + end, cells.high(1));
}

template <class R>
static void halve_norm_gradient(const Affine& f, const AffineGradient& k, const float* x, const float* dy,
                                int64_t height, int64_t width, float* dx) {
    const int64_t used = width / 2 * 2, out_h = height / 2, out_w = width / 2;
    const Line line(f);
    const GradientLine back(f, k);
    const vf sign = set1(sign_of(f.weight));
    for (int64_t oh = 0; used > W && oh < out_h; ++oh)
        halve_norm_gradient_row<R>(line, back, sign, x + 2 * oh * width, dy + oh * out_w, width, dx + 2 * oh * width);
    for (int64_t oh = 0; used <= W && oh < out_h; oh += 2)
        halve_norm_gradient_narrow<R>(line, back, sign, x + 2 * oh * width, dy + oh * out_w, width,
                                      least(2, out_h - oh), dx + 2 * oh * width);
    for (int64_t r = 0; used < width && r < 2 * out_h; ++r)
        unpooled_gradient(line, back, x + r * width + used, 1, dx + r * width + used);
    if (height % 2) unpooled_gradient(line, back, x + 2 * out_h * width, width, dx + 2 * out_h * width);
}

// ---- one plane of either form ----

template <class R>
struct ReluForward {
    int64_t height, width;
    bool halved;
    const float* x;
    float* y;

    void operator()(const PlaneRun& run, const Affine& f) const {
        const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
        const Rectified<R> z(f);
        each_plane_of(run, 1, [&](int64_t p) {
            if (halved) halve_norm_plane(z, x + p * inner, height, width, y + p * pooled);
            else relu_norm_plane(z, x + p * inner, inner, y + p * inner);
        });
    }
};

template <class R>
struct ReluBackward {
    int64_t height, width;
    bool halved;
    const float *x, *dy;
    float* dx;

    const float* dy_of(int64_t p) const { return dy + p * (height / 2) * (width / 2); }
    void operator()(const PlaneRun& run, const Affine& f, NormSums* sums) const {
        const int64_t inner = height * width;
        if (!halved) return relu_norm_sums<R>(f, x, dy, run, inner, sums);
        each_plane_of(run, 1, [&](int64_t p) { halve_norm_sums<R>(f, x + p * inner, dy_of(p), height, width, sums); });
    }
    void operator()(const PlaneRun& run, const Affine& f, const AffineGradient& k) const {
        const int64_t inner = height * width;
        const Line line(f);
        const GradientLine back(f, k);
        each_plane_of(run, 1, [&](int64_t p) {
            const int64_t at = p * inner;
            if (halved) halve_norm_gradient<R>(f, k, x + at, dy_of(p), height, width, dx + at);
            else relu_norm_gradient<R>(line, back, x + at, dy + at, inner, dx + at);
        });
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
    if (relu6)
        batchnorm_rectified(x, batch, channels, statistics, ReluForward<ReLU6>{height, width, halved != 0, x, y});
    else batchnorm_rectified(x, batch, channels, statistics, ReluForward<ReLU>{height, width, halved != 0, x, y});
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
    if (relu6) backward(ReluBackward<ReLU6>{height, width, halved != 0, x, dy, dx});
    else backward(ReluBackward<ReLU>{height, width, halved != 0, x, dy, dx});
    return EFL_OK;
}

// ---- group norm

static efl_status groupnorm_relu_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                             efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                             efl_int64 groups, float eps, float* y, float* mean, float* inv_std) {
    groupnorm_planes(x, weight, bias, batch, channels, height * width, groups, eps, mean, inv_std,
                     ReluForward<ReLU>{.height = height, .width = width, .halved = halved != 0, .x = x, .y = y});
    return EFL_OK;
}

static efl_status groupnorm_relu_backward_f32(const float* dy, const float* x, const float* weight, const float* bias,
                                              const float* mean, const float* inv_std, efl_int64 batch,
                                              efl_int64 channels, efl_int64 height, efl_int64 width, efl_int32 halved,
                                              efl_int64 groups, efl_index groups_needed, efl_index outs, float* dx,
                                              float* dweight, float* dbias) {
    const ReluBackward<ReLU> plane{.height = height, .width = width, .halved = halved != 0, .x = x, .dy = dy, .dx = dx};
    return groupnorm_gradients(weight, bias, mean, inv_std, batch, channels, height * width, groups, groups_needed,
                               outs, dweight, dbias, plane, plane);
}
