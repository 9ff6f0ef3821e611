// Sums over a plane (float lanes in a fixed tree) and over the batch (float64), for normalisation and bias gradients.

constexpr int SUMS = READS_IN_FMA ? 2 : 4;  // that a loop keeps side by side

struct RunningSums {
    vf of[SUMS];

    inline RunningSums() {
        EFL_UNROLL
        for (int k = 0; k < SUMS; ++k) of[k] = zero();
    }
    inline float total() const {
        if constexpr (SUMS == 2) return sum(add(of[0], of[1]));
        else return sum(add(add(of[0], of[1]), add(of[2], of[3])));
    }
};

// sum x[i]
static inline double plane_sum(const float* x, int64_t n) {
    RunningSums all;
    int64_t i = 0;
    for (; i + SUMS * W <= n; i += SUMS * W) {
        EFL_UNROLL
        for (int k = 0; k < SUMS; ++k) all.of[k] = add(all.of[k], load(x + i + k * W));
    }
    for (; i + W <= n; i += W) all.of[0] = add(all.of[0], load(x + i));
    if (i < n) all.of[1] = add(all.of[1], load_n(x + i, int(n - i)));
    return double(all.total());
}

// Adds sum x[i] and sum x[i] z[i] over `planes` of n floats each, `step` floats apart.
static inline void planes_sums(const float* x, const float* z, int64_t planes, int64_t step, int64_t n, double* sum_x,
                               double* sum_xz) {
    RunningSums xs, products;
    for (int64_t p = 0; p < planes; ++p, x += step, z += step) {
        int64_t i = 0;
        for (; i + SUMS * W <= n; i += SUMS * W) {
            EFL_UNROLL
            for (int k = 0; k < SUMS; ++k) {
                const vf v = load(x + i + k * W);
                xs.of[k] = add(xs.of[k], v);
                products.of[k] = fma(v, load(z + i + k * W), products.of[k]);
            }
        }
        for (; i < n; i += W) {
            const int rest = int(least(W, n - i));
            const vf v = load_n(x + i, rest);
            xs.of[0] = add(xs.of[0], v);
            products.of[0] = fma(v, load_n(z + i, rest), products.of[0]);
        }
    }
    *sum_x += double(xs.total());
    *sum_xz += double(products.total());
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
        RunningSums ds, dds;
        for (int64_t p = 0; p < planes; ++p, x += step) {
            int64_t i = 0;
            for (; i + SUMS * W <= n; i += SUMS * W) {
                vf d[SUMS];
                EFL_UNROLL
                for (int k = 0; k < SUMS; ++k) d[k] = sub(load(x + i + k * W), s);
                EFL_UNROLL
                for (int k = 0; k < SUMS; ++k) ds.of[k] = add(ds.of[k], d[k]), dds.of[k] = fma(d[k], d[k], dds.of[k]);
            }
            for (; i + W <= n; i += W) {
                const vf d = sub(load(x + i), s);
                ds.of[0] = add(ds.of[0], d);
                dds.of[0] = fma(d, d, dds.of[0]);
            }
            if (i == n) continue;
            const int rest = int(n - i);
            const vf d = keep_bits(sub(load_n(x + i, rest), s), (1u << rest) - 1u);
            ds.of[1] = add(ds.of[1], d);
            dds.of[1] = fma(d, d, dds.of[1]);
        }
        count += double(planes * n);
        sum_d += double(ds.total());
        sum_dd += double(dds.total());
    }

    inline double mean() const { return double(shift) + sum_d / count; }
    inline double squares() const { return sum_dd - sum_d * sum_d / count; }  // sum of squared deviations from the mean
    inline double variance() const { return squares() > 0 || squares() != squares() ? squares() / count : 0; }
};
