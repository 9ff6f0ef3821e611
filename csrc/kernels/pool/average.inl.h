// Average pooling, forward and backward.

// PyTorch's divisor: with count_include_pad the window cut at the padded plane, otherwise its cells inside the plane.
static inline float divisor(const efl_pool2d& p, const Window& in) {
    if (!p.count_include_pad) return float((in.h_end - in.h_begin) * (in.w_end - in.w_begin));
    const int64_t h = least(in.h0 + p.kernel_h, p.height + p.pad_h) - in.h0,
                  w = least(in.w0 + p.kernel_w, p.width + p.pad_w) - in.w0;
    return float(h * w);
}

// One window, the whole plane.
static bool is_global(const Pooling& pool) {
    const efl_pool2d& p = *pool.p;
    return pool.out_plane() == 1 && p.kernel_h == p.height && p.kernel_w == p.width && !p.pad_h && !p.pad_w;
}

static void avgpool_plane(const Pooling& pool, const float* x, float* y) {
    const efl_pool2d& p = *pool.p;
    if (is_global(pool)) {
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

static void avgpool_plane_backward(const Pooling& pool, const float* dy, float* dx) {
    const efl_pool2d& p = *pool.p;
    if (is_global(pool)) {
        const vf share = set1(dy[0] / float(pool.in_plane()));
        int64_t i = 0;
        for (; i + W <= pool.in_plane(); i += W) store(dx + i, share);
        return store_n(dx + i, share, int(pool.in_plane() - i));
    }
    memset(dx, 0, size_t(pool.in_plane()) * sizeof(float));
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            const float share = dy[oh * pool.out_w + ow] / divisor(p, in);
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) dx[h * p.width + w] += share;
        }
}

static efl_status avgpool_forward_f32(const efl_pool2d* p, const float* x, float* y) {
    const Pooling pool(p);
    each_plane(*p, 1, everything,
               [&](int64_t i) { avgpool_plane(pool, x + i * pool.in_plane(), y + i * pool.out_plane()); });
    return EFL_OK;
}

static efl_status avgpool_backward_f32(const efl_pool2d* p, const float* dy, efl_int64 channels,
                                       efl_index channels_needed, float* dx) {
    const Pooling pool(p);
    each_plane(*p, channels, channels_needed,
               [&](int64_t i) { avgpool_plane_backward(pool, dy + i * pool.out_plane(), dx + i * pool.in_plane()); });
    return EFL_OK;
}
