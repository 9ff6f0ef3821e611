// Sums over a plane (float lanes in a fixed tree) and over the batch (float64), for normalisation and bias gradients.

// sum x[i]
static inline double plane_sum(const float* x, int64_t n) {
    vf a = zero(), b = zero();
    int64_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
        a = add(a, load(x + i));
        b = add(b, load(x + i + W));
    }
    for (; i + W <= n; i += W) a = add(a, load(x + i));
    if (i < n) b = add(b, load_n(x + i, int(n - i)));
    return double(sum(add(a, b)));
}

// Adds sum x[i] and sum x[i] z[i] over `planes` of n floats each, `step` floats apart.
static inline void planes_sums(const float* x, const float* z, int64_t planes, int64_t step, int64_t n, double* sum_x,
                               double* sum_xz) {
    vf a = zero(), b = zero(), c = zero(), d = zero();
    for (int64_t p = 0; p < planes; ++p, x += step, z += step) {
        int64_t i = 0;
        for (; i + 2 * W <= n; i += 2 * W) {
            const vf v = load(x + i), u = load(x + i + W);
            a = add(a, v);
            b = add(b, u);
            c = fma(v, load(z + i), c);
            d = fma(u, load(z + i + W), d);
        }
        for (; i < n; i += W) {
            const int rest = int(least(W, n - i));
            const vf v = load_n(x + i, rest);
            a = add(a, v);
            c = fma(v, load_n(z + i, rest), c);
        }
    }
    *sum_x += double(sum(add(a, b)));
    *sum_xz += double(sum(add(c, d)));
}

static inline void plane_sums(const float* x, const float* z, int64_t n, double* sum_x, double* sum_xz) {
    planes_sums(x, z, 1, 0, n, sum_x, sum_xz);
}

// Sums of d and d^2 over planes of one channel or group, d = x - shift, from which mean and variance follow.
//
// The shift is the mean of the first plane. If that is one of B equal planes, (mean - shift)^2 is at most B times the
// variance, so the subtraction in variance() costs at most a factor B + 1 of float32's precision, however far the
// values are from 0.
struct Moments {
    float shift;
    double count = 0, sum_d = 0, sum_dd = 0;

    inline Moments() : shift(0) {}
    inline Moments(float shift_, double count_, double sum, double squares)
        : shift(shift_), count(count_), sum_d(sum), sum_dd(squares) {}
    inline Moments(const float* x, int64_t n) : shift(x[0]) {
        add_plane(x, n);
        shift = float(mean());
        count = sum_d = sum_dd = 0;
    }

    inline void add_plane(const float* x, int64_t n) { add_planes(x, 1, 0, n); }

    // `planes` of n floats each, `step` floats apart.
    inline void add_planes(const float* x, int64_t planes, int64_t step, int64_t n) {
        const vf s = set1(shift);
        vf a = zero(), b = zero(), aa = zero(), bb = zero();
        for (int64_t p = 0; p < planes; ++p, x += step) {
            int64_t i = 0;
            for (; i + 2 * W <= n; i += 2 * W) {
                const vf d = sub(load(x + i), s), e = sub(load(x + i + W), s);
                a = add(a, d);
                b = add(b, e);
                aa = fma(d, d, aa);
                bb = fma(e, e, bb);
            }
            for (; i + W <= n; i += W) {
                const vf d = sub(load(x + i), s);
                a = add(a, d);
                aa = fma(d, d, aa);
            }
            if (i == n) continue;
            const int rest = int(n - i);
            const vf d = keep_bits(sub(load_n(x + i, rest), s), (1u << rest) - 1u);
            b = add(b, d);
            bb = fma(d, d, bb);
        }
        count += double(planes * n);
        sum_d += double(sum(add(a, b)));
        sum_dd += double(sum(add(aa, bb)));
    }

    inline double mean() const { return double(shift) + sum_d / count; }
    inline double squares() const { return sum_dd - sum_d * sum_d / count; }  // sum of squared deviations from the mean
    inline double variance() const { return squares() > 0 || squares() != squares() ? squares() / count : 0; }
};
