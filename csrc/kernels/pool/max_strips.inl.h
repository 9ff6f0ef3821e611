// Max pooling by strips: the largest cell of each window in each row once, then of these for each window. The first
// largest one wins in both, and a NaN over all before it, so together the cell that the definition finds.

// Of each window of a strip the first column inside the plane, counted from its own first.
struct FirstInside {
    alignas(64) float column[STRIP];

    FirstInside(const Pooling& pool, const Strip& strip) {
        for (int64_t n = 0; n < STRIP; ++n) {
            const Window in(*pool.p, 0, strip.first + n);
            column[n] = float(in.w_begin - in.w0);
        }
    }
};

template <int64_t STRIDE>
static void maxpool_strip(const Pooling& pool, const Combs<STRIDE>& combs, const FirstInside& inside, const float* x,
                          float* y, uint8_t* codes) {
    const efl_pool2d& p = *pool.p;
    const Strip& strip = combs.strip;
    alignas(64) float sequences[SEQUENCES][STRIDE * STRIP_SEQUENCE], largest[RING][STRIP], cells[RING][STRIP];
    const auto take = [&](int64_t row, int64_t n) { combs.take_apart(x + row * p.width, -INFINITY, sequences[n]); };
    int64_t oh = 0;
    in_turns(p.height, take, [&](int64_t row, int64_t n) {
        const float* const sequence = sequences[n];
        for (int64_t v = 0; v < strip.vectors; ++v) {
            vf best = set1(-INFINITY), cell = load(inside.column + v * W);
            for (int64_t k = 0; k < p.kernel_w; ++k) {
                const vf value = load(sequence + combs.at[k] + v * W);
                cell = if_above(value, best, set1(float(k)), cell);
                best = if_above(value, best, value, best);
            }
            store(largest[row & (RING - 1)] + v * W, best);
            store(cells[row & (RING - 1)] + v * W, cell);
        }
        for (; oh < pool.out_h && Window(p, oh, 0).h_end <= row + 1; ++oh) {
            const Window in(p, oh, 0);
            for (int64_t v = 0; v < strip.vectors; ++v) {
                const auto code_of = [&](int64_t h) {
                    return add(load(cells[h & (RING - 1)] + v * W), set1(float((h - in.h0) * p.kernel_w)));
                };
                vf best = load(largest[in.h_begin & (RING - 1)] + v * W), code = code_of(in.h_begin);
                for (int64_t h = in.h_begin + 1; h < in.h_end; ++h) {
                    const vf value = load(largest[h & (RING - 1)] + v * W);
                    code = if_above(value, best, code_of(h), code);
                    best = if_above(value, best, value, best);
                }
                const int64_t to = oh * pool.out_w + strip.first + v * W;
                store_n(y + to, best, strip.lanes(v));
                if (codes) store_codes_of(codes + to, code, strip.lanes(v));
            }
        }
    });
}
