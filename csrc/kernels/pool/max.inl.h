// Max pooling, forward and backward. Forward leaves one byte per output: the cell of its window that won.
//
// Windows of 2 x 2 with stride 2, which is nearly every pool there is, and pairs of a row have vectors of their own;
// the others go by strips, and those too large or too far apart for these by the definition.

static void maxpool_plane(const Pooling& pool, const float* x, float* y, uint8_t* codes) {
    const efl_pool2d& p = *pool.p;
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            float best = -INFINITY;
            int64_t code = (in.h_begin - in.h0) * p.kernel_w + (in.w_begin - in.w0);
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) {
                    const float v = x[h * p.width + w];
                    if (!(v > best || v != v)) continue;
                    best = v;
                    code = (h - in.h0) * p.kernel_w + (w - in.w0);
                }
            y[oh * pool.out_w + ow] = best;
            if (codes) codes[oh * pool.out_w + ow] = uint8_t(code);
        }
}

static void maxpool_plane_backward(const Pooling& pool, const float* dy, const uint8_t* codes, float* dx) {
    const efl_pool2d& p = *pool.p;
    int64_t cells[256];  // of each code, counted from the window's first
    for (int64_t code = 0, h = 0; h < p.kernel_h; ++h)
        for (int64_t w = 0; w < p.kernel_w; ++w) cells[code++] = h * p.width + w;
    memset(dx, 0, size_t(pool.in_plane()) * sizeof(float));
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow, ++dy, ++codes) {
            const int64_t first = (oh * p.stride_h - p.pad_h) * p.width + ow * p.stride_w - p.pad_w;
            dx[first + cells[*codes]] += *dy;
        }
}

// ---- Pairs of columns of one row or of two, which are as far apart, without padding. A forward vector may run past
// the end of its row into the next one, which is written later; only at the end of the plane is it cut.

static inline bool is_halving(const efl_pool2d& p, int64_t rows) {
    if (p.ceil_mode && (p.height % rows || p.width % 2)) return false;  // a window is cut
    return p.kernel_h == rows && p.stride_h == rows && p.kernel_w == 2 && p.stride_w == 2 && !p.pad_h && !p.pad_w;
}

// W outputs from the rows at `top`; returns the largest and sets the code.
template <int ROWS>
static inline vf halve(const float* top, int64_t width, int64_t left, vf* code) {
    vf a, b, c, d;
    load_pair(top, left, &a, &b);
    vf best = evens(a, b), next = odds(a, b);
    *code = if_above(next, best, set1(1), zero());
    best = if_above(next, best, next, best);
    if (ROWS == 1) return best;
    load_pair(top + width, left - width, &c, &d);
    next = evens(c, d);
    *code = if_above(next, best, set1(2), *code);
    best = if_above(next, best, next, best);
    next = odds(c, d);
    *code = if_above(next, best, set1(3), *code);
    return if_above(next, best, next, best);
}

template <int ROWS>
static void halve_plane(const Pooling& pool, const float* x, float* y, uint8_t* codes) {
    const int64_t width = pool.p->width, in_plane = pool.in_plane(), out_h = pool.out_h, out_w = pool.out_w;
    for (int64_t oh = 0; oh < out_h; ++oh)
        for (int64_t ow = 0; ow < out_w; ow += W) {
            const int64_t from = ROWS * oh * width + 2 * ow, to = oh * out_w + ow, left = out_h * out_w - to;
            vf code;
            const vf best = halve<ROWS>(x + from, width, in_plane - from, &code);
            if (left >= W) {
                store(y + to, best);
                if (codes) store_u8(codes + to, code);
                continue;
            }
            store_n(y + to, best, int(left));
            if (codes) store_codes_of(codes + to, code, int(left));
        }
}

// The n <= W windows at dx: dy goes to the cell that its code names, 0 to the others.
template <int ROWS>
static inline void unhalve(vf dy, vf code, float* dx, int64_t width, int n) {
    store_pairs(dx, keep_equal(dy, code, zero()), keep_equal(dy, code, set1(1)), n);
    if (ROWS == 2) store_pairs(dx + width, keep_equal(dy, code, set1(2)), keep_equal(dy, code, set1(3)), n);
}

template <int ROWS>
static void halve_plane_backward(const Pooling& pool, const float* dy, const uint8_t* codes, float* dx) {
    const int64_t width = pool.p->width, out_h = pool.out_h, out_w = pool.out_w, used = 2 * out_w;
    for (int64_t oh = 0; oh < out_h; ++oh) {
        const int64_t at = oh * out_w;
        float* top = dx + ROWS * oh * width;
        if (out_w < W) {  // the n < W windows of a row shorter than a vector
            const vf code = load_codes_of(codes + at, pool.out_plane() - at, int(out_w));
            unhalve<ROWS>(load_n(dy + at, int(out_w)), code, top, width, int(out_w));
        } else
            for (int64_t ow = 0; ow < out_w; ow += W) {
                const int64_t o = least(ow, out_w - W);  // the last vector overlaps the one before
                unhalve<ROWS>(load(dy + at + o), load_u8(codes + at + o), top + 2 * o, width, W);
            }
        for (int64_t row = 0; row < ROWS && used < width; ++row) top[row * width + used] = 0;
    }
    const int64_t done = ROWS * pool.out_h * width;
    memset(dx + done, 0, size_t(pool.in_plane() - done) * sizeof(float));
}

static efl_status maxpool_forward_f32(const efl_pool2d* p, const float* x, float* y, efl_uint8* codes) {
    const Pooling pool(p);
    const auto each = [&](const auto& plane) {
        each_plane(*p, 1, everything, [=](int64_t i) {
            const int64_t out = i * pool.out_plane();
            plane(x + i * pool.in_plane(), y + out, codes ? codes + out : nullptr);
        });
    };
    const auto strips = [&](auto stride) {
        each_strip(pool.out_w, [&](const Strip& strip) {
            const Combs<stride> combs(*p, strip);
            const FirstInside inside(pool, strip);
            each([&](auto... a) { maxpool_strip(pool, combs, inside, a...); });
        });
    };
    if (is_halving(*p, 2)) each([&](auto... a) { halve_plane<2>(pool, a...); });
    else if (is_halving(*p, 1)) each([&](auto... a) { halve_plane<1>(pool, a...); });
    else if (!by_strips(*p, strips)) each([&](auto... a) { maxpool_plane(pool, a...); });
    return EFL_OK;
}

static efl_status maxpool_backward_f32(const efl_pool2d* p, const float* dy, const efl_uint8* codes, efl_int64 channels,
                                       efl_index channels_needed, float* dx) {
    const Pooling pool(p);
    const auto plane = is_halving(*p, 2)   ? halve_plane_backward<2>
                       : is_halving(*p, 1) ? halve_plane_backward<1>
                                           : maxpool_plane_backward;
    each_plane(*p, channels, channels_needed, [=](int64_t i) {
        const int64_t out = i * pool.out_plane();
        plane(pool, dy + out, codes + out, dx + i * pool.in_plane());
    });
    return EFL_OK;
}
