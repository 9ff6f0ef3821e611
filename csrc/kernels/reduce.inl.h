// Sums over a plane (float lanes in a fixed tree) and over the batch (float64), used by normalisation and bias gradients.

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

// sum (x[i] - mean)^2
static inline double plane_squares(const float* x, int64_t n, float mean) {
    const vf m = set1(mean);
    vf a = zero(), b = zero();
    int64_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
        const vf d = sub(load(x + i), m), e = sub(load(x + i + W), m);
        a = fma(d, d, a);
        b = fma(e, e, b);
    }
    for (; i + W <= n; i += W) {
        const vf d = sub(load(x + i), m);
        a = fma(d, d, a);
    }
    double rest = 0;
    for (; i < n; ++i) rest += double(x[i] - mean) * double(x[i] - mean);
    return double(sum(add(a, b))) + rest;
}

// sum x[i] and sum x[i] z[i]
static inline void plane_sums(const float* x, const float* z, int64_t n, double* sum_x, double* sum_xz) {
    vf a = zero(), b = zero(), c = zero(), d = zero();
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
    *sum_x += double(sum(add(a, b)));
    *sum_xz += double(sum(add(c, d)));
}

// Count, mean and sum of squared deviations of a growing set: planes are added one at a time (Chan, Golub, LeVeque 1979).
struct Moments {
    double count = 0, mean = 0, squares = 0;

    inline void add_plane(const float* x, int64_t n) {
        const float plane_mean = float(plane_sum(x, n) / double(n));
        const double delta = double(plane_mean) - mean, total = count + double(n);
        squares += plane_squares(x, n, plane_mean) + delta * delta * (count * double(n) / total);
        mean += delta * (double(n) / total);
        count = total;
    }
};

// Bias gradients of a linear layer: sixteen columns at a time, rows in order.
static void column_sums(const float* dy, int64_t batch, int64_t channels, efl_index outs, int64_t first, int64_t last, float* db) {
    constexpr int64_t block = 16;
    for (int64_t j = first; j < last; j += block) {
        const int64_t n = least(block, last - j);
        double total[block] = {0};
        for (int64_t b = 0; b < batch; ++b) {
            const float* row = dy + b * channels;
            if (outs.ids) for (int64_t k = 0; k < n; ++k) total[k] += row[outs.ids[j + k]];
            else for (int64_t k = 0; k < n; ++k) total[k] += row[j + k];
        }
        for (int64_t k = 0; k < n; ++k) db[j + k] = float(total[k]);
    }
}

static efl_status channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs, float* db) {
    split(count_of(outs, channels), batch * inner, [&](int64_t first, int64_t last) {
        if (inner == 1) return column_sums(dy, batch, channels, outs, first, last, db);
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t b = 0; b < batch; ++b) total += plane_sum(dy + (b * channels + id_of(outs, j)) * inner, inner);
            db[j] = float(total);
        }
    });
    return EFL_OK;
}
