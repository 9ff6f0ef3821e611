// Max pooling of images side by side: every cell is `lanes` floats, which are compared vector by vector. Codes as in
// max.inl.h.

// body(i, n) for vectors of n <= W lanes that begin at lane i.
template <class Body>
static inline void each_vector(int64_t lanes, const Body& body) {
    for (int64_t i = 0; i < lanes; i += W) body(i, int(least(W, lanes - i)));
}

static inline vf load_some(const float* from, int n) { return n == W ? load(from) : load_n(from, n); }
static inline void store_some(float* to, vf v, int n) { n == W ? store(to, v) : store_n(to, v, n); }

// The largest of a window's n lanes at `from`, whose first cell inside is met first.
static inline vf largest(const efl_pool2d& p, const Window& in, const float* from, int64_t lanes, int n, vf* code) {
    vf best = set1(-INFINITY);
    *code = set1(float((in.h_begin - in.h0) * p.kernel_w + (in.w_begin - in.w0)));
    for (int64_t h = in.h_begin; h < in.h_end; ++h)
        for (int64_t w = in.w_begin; w < in.w_end; ++w) {
            const vf v = load_some(from + (h * p.width + w) * lanes, n);
            *code = if_above(v, best, set1(float((h - in.h0) * p.kernel_w + (w - in.w0))), *code);
            best = if_above(v, best, v, best);
        }
    return best;
}

static void maxpool_vectors(const Pooling& pool, int64_t lanes, const float* x, float* y, uint8_t* codes) {
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(*pool.p, oh, ow);
            const int64_t to = (oh * pool.out_w + ow) * lanes;
            each_vector(lanes, [&](int64_t i, int n) {
                vf code;
                store_some(y + to + i, largest(*pool.p, in, x + i, lanes, n, &code), n);
                if (codes) store_codes_of(codes + to + i, code, n);
            });
        }
}

// Sends n lanes of dy to the window's cell that their codes name: added where windows overlap, else written.
template <bool ADDED>
static inline void send(const efl_pool2d& p, const Window& in, vf dy, vf code, float* dx, int64_t lanes, int n) {
    for (int64_t h = in.h_begin; h < in.h_end; ++h)
        for (int64_t w = in.w_begin; w < in.w_end; ++w) {
            float* const cell = dx + (h * p.width + w) * lanes;
            const vf sent = keep_equal(dy, code, set1(float((h - in.h0) * p.kernel_w + (w - in.w0))));
            store_some(cell, ADDED ? add(load_some(cell, n), sent) : sent, n);
        }
}

template <bool ADDED>
static void maxpool_vectors_backward(const Pooling& pool, int64_t lanes, const float* dy, const uint8_t* codes,
                                     float* dx) {
    const efl_pool2d& p = *pool.p;
    const bool is_covered = !ADDED && 2 * pool.out_h == p.height && 2 * pool.out_w == p.width;
    if (!is_covered) zero_floats(dx, pool.in_plane() * lanes);
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            const int64_t at = (oh * pool.out_w + ow) * lanes;
            each_vector(lanes, [&](int64_t i, int n) {
                send<ADDED>(p, in, load_some(dy + at + i, n), load_codes_of(codes + at + i, n, n), dx + i, lanes, n);
            });
        }
}

static efl_status maxpool_lanes_forward_f32(const efl_pool2d* p, efl_int64 lanes, const float* x, float* y,
                                            efl_uint8* codes) {
    const Pooling pool(p);
    split(p->planes, pool.in_plane() * lanes, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t out = i * pool.out_plane() * lanes;
            maxpool_vectors(pool, lanes, x + i * pool.in_plane() * lanes, y + out, codes ? codes + out : nullptr);
        }
    });
    return EFL_OK;
}

static efl_status maxpool_lanes_backward_f32(const efl_pool2d* p, efl_int64 lanes, const float* dy,
                                             const efl_uint8* codes, float* dx) {
    const Pooling pool(p);
    const auto plane = is_halving(*p, 2) ? maxpool_vectors_backward<false> : maxpool_vectors_backward<true>;
    split(p->planes, pool.in_plane() * lanes, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t out = i * pool.out_plane() * lanes;
            plane(pool, lanes, dy + out, codes + out, dx + i * pool.in_plane() * lanes);
        }
    });
    return EFL_OK;
}
