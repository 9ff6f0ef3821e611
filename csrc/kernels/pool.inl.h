// Max and average pooling. Max pooling leaves one byte per output: the cell of its window that won.

// The output extents, and the part of a window that lies inside the plane.
struct Pool {
    const efl_pool2d* p;
    int64_t out_h, out_w;

    explicit Pool(const efl_pool2d* pool)
        : p(pool),
          out_h((pool->height + 2 * pool->pad_h - pool->kernel_h) / pool->stride_h + 1),
          out_w((pool->width + 2 * pool->pad_w - pool->kernel_w) / pool->stride_w + 1) {}
    inline int64_t in_plane() const { return p->height * p->width; }
    inline int64_t out_plane() const { return out_h * out_w; }
};

struct Window {
    int64_t h0, w0;               // its origin, which may lie in the padding
    int64_t h_begin, h_end, w_begin, w_end;  // its cells inside the plane

    inline Window(const efl_pool2d& p, int64_t oh, int64_t ow)
        : h0(oh * p.stride_h - p.pad_h), w0(ow * p.stride_w - p.pad_w),
          h_begin(h0 < 0 ? 0 : h0), h_end(least(h0 + p.kernel_h, p.height)),
          w_begin(w0 < 0 ? 0 : w0), w_end(least(w0 + p.kernel_w, p.width)) {}
};

static void maxpool_plane(const Pool& pool, const float* x, float* y, uint8_t* codes) {
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

static void maxpool_plane_backward(const Pool& pool, const float* dy, const uint8_t* codes, float* dx) {
    const efl_pool2d& p = *pool.p;
    memset(dx, 0, size_t(pool.in_plane()) * sizeof(float));
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const int64_t code = codes[oh * pool.out_w + ow];
            const int64_t h = oh * p.stride_h - p.pad_h + code / p.kernel_w, w = ow * p.stride_w - p.pad_w + code % p.kernel_w;
            dx[h * p.width + w] += dy[oh * pool.out_w + ow];
        }
}

// PyTorch's divisor: with count_include_pad the window cut at the padded plane, otherwise its cells inside the plane.
static inline float divisor(const efl_pool2d& p, const Window& in) {
    if (!p.count_include_pad) return float((in.h_end - in.h_begin) * (in.w_end - in.w_begin));
    const int64_t h = least(in.h0 + p.kernel_h, p.height + p.pad_h) - in.h0, w = least(in.w0 + p.kernel_w, p.width + p.pad_w) - in.w0;
    return float(h * w);
}

static void avgpool_plane(const Pool& pool, const float* x, float* y) {
    const efl_pool2d& p = *pool.p;
    if (pool.out_plane() == 1 && p.kernel_h == p.height && p.kernel_w == p.width && !p.pad_h && !p.pad_w) {
        *y = float(plane_sum(x, pool.in_plane()) / double(pool.in_plane()));
        return;
    }
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            float total = 0;
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) total += x[h * p.width + w];
            y[oh * pool.out_w + ow] = total / divisor(p, in);
        }
}

static void avgpool_plane_backward(const Pool& pool, const float* dy, float* dx) {
    const efl_pool2d& p = *pool.p;
    memset(dx, 0, size_t(pool.in_plane()) * sizeof(float));
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            const float share = dy[oh * pool.out_w + ow] / divisor(p, in);
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) dx[h * p.width + w] += share;
        }
}

// visit(plane) for the planes [b, c] with c needed.
template <class Visit>
static void each_plane(const efl_pool2d& p, int64_t channels, efl_index channels_needed, Visit&& visit) {
    const int64_t needed = count_of(channels_needed, channels);
    split(p.planes / channels * needed, p.height * p.width, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) visit(i / needed * channels + id_of(channels_needed, i % needed));
    });
}

static const efl_index all_channels = {nullptr, 0};

static efl_status maxpool_forward_f32(const efl_pool2d* p, const float* x, float* y, efl_uint8* codes) {
    const Pool pool(p);
    each_plane(*p, 1, all_channels, [&](int64_t i) {
        maxpool_plane(pool, x + i * pool.in_plane(), y + i * pool.out_plane(), codes ? codes + i * pool.out_plane() : nullptr);
    });
    return EFL_OK;
}

static efl_status maxpool_backward_f32(const efl_pool2d* p, const float* dy, const efl_uint8* codes, efl_int64 channels,
                                       efl_index channels_needed, float* dx) {
    const Pool pool(p);
    each_plane(*p, channels, channels_needed, [&](int64_t i) {
        maxpool_plane_backward(pool, dy + i * pool.out_plane(), codes + i * pool.out_plane(), dx + i * pool.in_plane());
    });
    return EFL_OK;
}

static efl_status avgpool_forward_f32(const efl_pool2d* p, const float* x, float* y) {
    const Pool pool(p);
    each_plane(*p, 1, all_channels, [&](int64_t i) { avgpool_plane(pool, x + i * pool.in_plane(), y + i * pool.out_plane()); });
    return EFL_OK;
}

static efl_status avgpool_backward_f32(const efl_pool2d* p, const float* dy, efl_int64 channels, efl_index channels_needed, float* dx) {
    const Pool pool(p);
    each_plane(*p, channels, channels_needed, [&](int64_t i) {
        avgpool_plane_backward(pool, dy + i * pool.out_plane(), dx + i * pool.in_plane());
    });
    return EFL_OK;
}
