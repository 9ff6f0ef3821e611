// Average pooling by strips: the sums of the windows in each row once, then of these sums for each window.

// Of each window of a strip, and of those beside it, the columns that it is divided by.
struct Across {
    alignas(64) float columns[STRIP_SEQUENCE];

    Across(const Pooling& pool, const Strip& strip, int64_t before, int64_t after) {
        strip.gather(before, after, pool.out_w, 1, columns, [&](float* to, int64_t from, int64_t n) {
            for (int64_t i = 0; i < n; ++i) to[i] = float(columns_divided(*pool.p, Window(*pool.p, 0, from + i)));
        });
    }
};

template <int64_t STRIDE>
static void average_strip(const Pooling& pool, const Combs<STRIDE>& combs, const Across& across, const float* x,
                          float* y) {
    const efl_pool2d& p = *pool.p;
    const Strip& strip = combs.strip;
    alignas(64) float sequences[SEQUENCES][STRIDE * STRIP_SEQUENCE], sums[RING][STRIP];
    const auto take = [&](int64_t row, int64_t n) { combs.take_apart(x + row * p.width, 0, sequences[n]); };
    int64_t oh = 0;
    in_turns(p.height, take, [&](int64_t row, int64_t n) {
        const float* const sequence = sequences[n];
        for (int64_t v = 0; v < strip.vectors; ++v) {
            vf total = zero();
            for (int64_t k = 0; k < p.kernel_w; ++k) total = add(total, load(sequence + combs.at[k] + v * W));
            store(sums[row & (RING - 1)] + v * W, total);
        }
        for (; oh < pool.out_h && Window(p, oh, 0).h_end <= row + 1; ++oh) {
            const Window in(p, oh, 0);
            const vf down = set1(float(rows_divided(p, in)));
            for (int64_t v = 0; v < strip.vectors; ++v) {
                vf total = zero();
                for (int64_t h = in.h_begin; h < in.h_end; ++h) total = add(total, load(sums[h & (RING - 1)] + v * W));
                const vf cells = mul(down, load(across.columns + strip.at(0, v)));
                store_n(y + oh * pool.out_w + strip.first + v * W, div(total, cells), strip.lanes(v));
            }
        }
    });
}

template <int64_t STRIDE>
static void average_strip_backward(const Pooling& pool, const Strip& strip, const Across& across, const float* dy,
                                   float* dx) {
    const efl_pool2d& p = *pool.p;
    const int64_t before = shift_of(p.kernel_w - 1, p.pad_w, STRIDE), after = -shift_of(0, p.pad_w, STRIDE);
    const int64_t begin = strip.at(-before, 0), end = strip.at(after, strip.vectors);
    // What cells get: of a window, and of all windows.
    alignas(64) float shares[RING][STRIP_SEQUENCE], sequences[SEQUENCES][STRIP_SEQUENCE];
    Seeing rows(pool);
    int64_t known = 0;
    const auto share = [&](int64_t oh) {
        float* const sequence = shares[oh & (RING - 1)];
        const auto copy = [&](float* to, int64_t from, int64_t n) { copy_floats(to, dy + oh * pool.out_w + from, n); };
        strip.gather(before, after, pool.out_w, 0, sequence, copy);
        const vf down = set1(float(rows_divided(p, Window(p, oh, 0))));
        for (int64_t i = begin; i < end; i += W)
            store(sequence + i, div(load(sequence + i), mul(down, load(across.columns + i))));
    };
    const auto add_up = [&](int64_t h, int64_t n) {
        for (rows.go_to(h); known < rows.last; ++known) share(known);
        for (int64_t i = begin; i < end; i += W) {
            vf total = zero();
            for (int64_t oh = rows.first; oh < rows.last; ++oh) total = add(total, load(shares[oh & (RING - 1)] + i));
            store(sequences[n] + i, total);
        }
    };
    in_turns(p.height, add_up, [&](int64_t h, int64_t n) {
        put_together<STRIDE>(p, strip, dx + h * p.width, [&](int64_t first, int64_t v) {
            vf total = zero();
            for (int64_t k = first; k < p.kernel_w; k += STRIDE)
                total = add(total, load(sequences[n] + strip.at(-shift_of(k, p.pad_w, STRIDE), v)));
            return total;
        });
    });
}
