// Normalisation, ReLU or ReLU6, and a 2 x 2 max pool of stride 2: the windows of a plane, row by row; forward and
// backward. line.inl.h has them one after the other where rows leave lanes empty.
//
// The largest z of a window is that of its largest x where the weight is positive, and of its smallest where it is
// negative. With weight 0 all cells are equal: the first wins where that matters, which is in the sum of dz * xhat.

struct Largest {
    static inline vf of(vf a, vf b) { return max(a, b); }
};
struct Smallest {
    static inline vf of(vf a, vf b) { return min(a, b); }
};

// use(Largest{}) or use(Smallest{}): which x of a window has its largest z.
template <class Use>
static inline void by_sign(const Affine& f, const Use& use) {
    if (f.weight < 0) use(Smallest{});
    else use(Largest{});
}

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
template <class R, class Best>
struct Rectified {
    Line line;

    explicit Rectified(const Affine& f) : line(f) {}
    vf largest(vf a, vf b, vf c, vf d) const {
        a = Best::of(a, c);
        b = Best::of(b, d);
        return R{}.value(line.at(line.centred(Best::of(evens(a, b), odds(a, b)))));
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
template <class R, class Best>
struct WindowSums {
    Line line;
    vf dz, dz_d;

    explicit WindowSums(const Affine& f) : line(f), dz(zero()), dz_d(zero()) {}

    inline void add_windows(vf a, vf b, vf c, vf d, vf g) {
        a = Best::of(a, c);
        b = Best::of(b, d);
        const vf best = line.centred(Best::of(pair_evens(a, b), pair_odds(a, b)));
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
template <class Sums>
static void halve_norm_sums_narrow(const float* x, const float* dy, int64_t height, int64_t width, Sums* sums) {
    Sums all = *sums;  // in registers
    const int n = int(width / 2 * 2);
    const auto row = [&](int64_t r) { return load_n(x + r * width, n); };
    int64_t oh = 0;
    for (; oh + 2 <= height / 2; oh += 2, dy += n, x += 4 * width)
        all.add_windows(row(0), row(2), row(1), row(3), grads_of_rows(dy, dy + n / 2, n / 2));
    if (oh < height / 2) all.add_windows(row(0), zero(), row(1), zero(), grads_of_rows(dy, nullptr, n / 2));
    *sums = all;
}

template <class Sums>
static void halve_norm_sums(const float* x, const float* dy, int64_t height, int64_t width, Sums* sums) {
    const int64_t used = width / 2 * 2;
    if (used <= W) return halve_norm_sums_narrow(x, dy, height, width, sums);
    Sums all = *sums;  // in registers
    const int64_t rest = used % (2 * W),
                  whole = used - rest;  // the same for all rows, and so are the masks of the rest
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
    *sums = all;
}

// dx of cells in no window: the last column of an odd width, the last row of an odd height.
static void unpooled_gradient(const Line& line, const GradientLine& back, const float* x, int64_t height, int64_t width,
                              float* dx) {
    const auto write = [&](int64_t at, int n) { store_n(dx + at, back.at(line.centred(load_n(x + at, n))), n); };
    for (int64_t r = 1; width % 2 && r <= height / 2 * 2; ++r) write(r * width - 1, 1);
    if (height % 2)
        for (int64_t i = 0; i < width; i += W) write((height - 1) * width + i, int(least(W, width - i)));
}

// W windows of two rows, turned from x into dx.
template <class R, class Best>
struct Cells {
    vf x[4];  // in the order of pairs: left and right above, left and right below

    Cells() = default;
    Cells(vf top, vf next_top, vf bottom, vf next_bottom)
        : x{pair_evens(top, next_top), pair_odds(top, next_top), pair_evens(bottom, next_bottom),
            pair_odds(bottom, next_bottom)} {}
    vf low(int row) const { return join_low(x[2 * row], x[2 * row + 1]); }
    vf high(int row) const { return join_high(x[2 * row], x[2 * row + 1]); }

    void differentiate(const Line& line, const GradientLine& back, vf g) {
        const vf best = Best::of(Best::of(x[0], x[1]), Best::of(x[2], x[3]));
        Winners winners(R{}.passed(g, line.at(line.centred(best))));
        EFL_UNROLL
        for (int k = 0; k < 3; ++k) x[k] = winners.add_first(back.gain, x[k], best, back.at(line.centred(x[k])));
        x[3] = winners.add_left(back.gain, back.at(line.centred(x[3])));
    }
};

// Two rows of windows of at most a vector, or the last one alone.
template <class R, class Best>
static inline void halve_norm_gradient_narrow(const Line& line, const GradientLine& back, const float* x,
                                              const float* dy, int64_t width, int64_t rows, float* dx) {
    const int n = int(width / 2 * 2);
    const int64_t next = rows > 1 ? 2 * width : 0;
    Cells<R, Best> cells(load_n(x, n), load_n(x + next, n), load_n(x + width, n), load_n(x + width + next, n));
    cells.differentiate(line, back, grads_of_rows(dy, rows > 1 ? dy + width / 2 : nullptr, n / 2));
    store_n(dx, cells.low(0), n);
    store_n(dx + width, cells.low(1), n);
    if (rows < 2) return;
    store_n(dx + next, cells.high(0), n);
    store_n(dx + width + next, cells.high(1), n);
}

// A row of windows. The last vector of a row overlaps the one before, so its x is read first: dx may be x.
template <class R, class Best>
static inline void halve_norm_gradient_row(Line line, GradientLine back, const float* x, const float* dy, int64_t width,
                                           float* dx) {
    const int64_t used = width / 2 * 2, end = used - W, rest = used % (2 * W), whole = used - rest;
    const vf last_top = load(x + end), last_bottom = load(x + width + end);
    for (int64_t w = 0; w < whole; w += 2 * W) {
        Cells<R, Best> cells;
        load_apart(x + w, &cells.x[0], &cells.x[1]);
        load_apart(x + width + w, &cells.x[2], &cells.x[3]);
        cells.differentiate(line, back, in_pair_order(dy + w / 2));
        store_joined(dx + w, cells.x[0], cells.x[1]);
        store_joined(dx + width + w, cells.x[2], cells.x[3]);
    }
    if (!rest) return;
    const int64_t first = rest <= W ? end : whole;
    Cells<R, Best> cells(rest <= W ? last_top : load(x + whole), last_top,
                         rest <= W ? last_bottom : load(x + width + whole), last_bottom);
    cells.differentiate(line, back, in_pair_order(dy + first / 2, dy + end / 2));
    store(dx + first, cells.low(0));
    store(dx + end, cells.high(0));
    store(dx + width + first, cells.low(1));
    store(dx + width + end, cells.high(1));
}

template <class R, class Best>
static void halve_norm_gradient(const Line& line, const GradientLine& back, const float* x, const float* dy,
                                int64_t height, int64_t width, float* dx) {
    const int64_t used = width / 2 * 2, out_h = height / 2, out_w = width / 2;
    for (int64_t oh = 0; used > W && oh < out_h; ++oh)
        halve_norm_gradient_row<R, Best>(line, back, x + 2 * oh * width, dy + oh * out_w, width, dx + 2 * oh * width);
    for (int64_t oh = 0; used <= W && oh < out_h; oh += 2)
        halve_norm_gradient_narrow<R, Best>(line, back, x + 2 * oh * width, dy + oh * out_w, width,
                                            least(2, out_h - oh), dx + 2 * oh * width);
}

// All of it for planes of one channel, in groups by line.inl.h where that pays.
struct Halving {
    int64_t height, width;
    WindowLine joined;

    Halving(int64_t batch, int64_t channels, int64_t height_, int64_t width_)
        : height(height_), width(width_), joined(batch, channels, height_, width_) {}

    template <class Group, class Plane>
    __attribute__((always_inline)) void each(const PlaneRun& run, const Group& group, const Plane& plane) const {
        int64_t k = 0;
        const int64_t most = joined.planes > 1 && run.step != joined.step ? 0 : joined.planes;
        for (; most && k + most <= run.count; k += most) group(run.first + k * run.step);
        for (; k < run.count; ++k) plane(run.first + k * run.step);
    }

    template <class Z>
    void forward(const Z& z, const PlaneRun& run, const float* x, float* y) const {
        const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
        each(
            run, [&](int64_t p) { joined.forward(z, x + p * inner, width, y + p * pooled); },
            [&](int64_t p) { halve_norm_plane(z, x + p * inner, height, width, y + p * pooled); });
    }

    template <class R, class Best>
    void sums(const Affine& f, const PlaneRun& run, const float* x, const float* dy, NormSums* to) const {
        const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
        const auto add = [&](const auto& sum_up) {  // float32 sums of a few planes at most
            WindowSums<R, Best> few(f);
            sum_up(&few);
            few.write(f, to);
        };
        each(
            run, [&](int64_t p) { add([&](auto* few) { joined.sum_up(x + p * inner, dy + p * pooled, width, few); }); },
            [&](int64_t p) {
                add([&](auto* few) { halve_norm_sums(x + p * inner, dy + p * pooled, height, width, few); });
            });
    }

    template <class R>
    void flat_sums(const Affine& f, const PlaneRun& run, const float* x, const float* dy, NormSums* to) const {
        const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
        each_plane_of(
            run, 1, [&](int64_t p) { halve_norm_sums_flat<R>(f, x + p * inner, dy + p * pooled, height, width, to); });
    }

    template <class R, class Best>
    void gradient(const Affine& f, const AffineGradient& k, const PlaneRun& run, const float* x, const float* dy,
                  float* dx) const {
        const int64_t inner = height * width, pooled = (height / 2) * (width / 2);
        const Line of(f);
        const GradientLine back(f, k);
        each(
            run,
            [&](int64_t p) {
                joined.template differentiate<Cells<R, Best>>(of, back, x + p * inner, dy + p * pooled, width,
                                                              dx + p * inner);
            },
            [&](int64_t p) {
                halve_norm_gradient<R, Best>(of, back, x + p * inner, dy + p * pooled, height, width, dx + p * inner);
            });
        if (width % 2 || height % 2)
            each_plane_of(run, inner, [&](int64_t at) { unpooled_gradient(of, back, x + at, height, width, dx + at); });
    }
};
