// Average pooling, forward and backward: global, by strips, and windows too large or too far apart for these by the
// definition.

// One window, the whole plane.
static bool is_global(const Pooling& pool) {
    const efl_pool2d& p = *pool.p;
    return pool.out_plane() == 1 && p.kernel_h == p.height && p.kernel_w == p.width && !p.pad_h && !p.pad_w;
}

static inline float divisor(const efl_pool2d& p, const Window& in) {
    return float(rows_divided(p, in) * columns_divided(p, in));
}

static void average_plane(const Pooling& pool, const float* x, float* y) {
    const efl_pool2d& p = *pool.p;
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            float total = 0;
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) total += x[h * p.width + w];
            y[oh * pool.out_w + ow] = total / divisor(p, in);
        }
}

static void average_plane_backward(const Pooling& pool, const float* dy, float* dx) {
    const efl_pool2d& p = *pool.p;
    zero_floats(dx, pool.in_plane());
    for (int64_t oh = 0; oh < pool.out_h; ++oh)
        for (int64_t ow = 0; ow < pool.out_w; ++ow) {
            const Window in(p, oh, ow);
            const float share = dy[oh * pool.out_w + ow] / divisor(p, in);
            for (int64_t h = in.h_begin; h < in.h_end; ++h)
                for (int64_t w = in.w_begin; w < in.w_end; ++w) dx[h * p.width + w] += share;
        }
}

static void global_plane_backward(const Pooling& pool, const float* dy, float* dx) {
    const vf share = set1(dy[0] / float(pool.in_plane()));
    int64_t i = 0;
    for (; i + W <= pool.in_plane(); i += W) store(dx + i, share);
    store_n(dx + i, share, int(pool.in_plane() - i));
}

static efl_status avgpool_forward_f32(const efl_pool2d* p, const float* x, float* y) {
    const Pooling pool(p);
    const auto each = [&](const auto& plane) {
        each_plane(*p, 1, everything, [&](int64_t i) { plane(x + i * pool.in_plane(), y + i * pool.out_plane()); });
    };
    const auto strips = [&](auto stride) {
        each_strip(pool.out_w, [&](const Strip& strip) {
            const Combs<stride> combs(*p, strip);
            const Across across(pool, strip, 0, 0);
            each([&](const float* in, float* out) { average_strip(pool, combs, across, in, out); });
        });
    };
    if (is_global(pool))
        each([&](const float* in, float* out) {
            *out = float(plane_sum(in, pool.in_plane()) / double(pool.in_plane()));
        });
    else if (!by_strips(*p, strips)) each([&](const float* in, float* out) { average_plane(pool, in, out); });
    return EFL_OK;
}

static efl_status avgpool_backward_f32(const efl_pool2d* p, const float* dy, efl_int64 channels,
                                       efl_index channels_needed, float* dx) {
    const Pooling pool(p);
    const auto each = [&](const auto& plane) {
        each_plane(*p, channels, channels_needed,
                   [&](int64_t i) { plane(dy + i * pool.out_plane(), dx + i * pool.in_plane()); });
    };
    const auto strips = [&](auto stride) {
        each_strip((p->width + stride - 1) / stride, [&](const Strip& strip) {
            const Across across(pool, strip, shift_of(p->kernel_w - 1, p->pad_w, stride),
                                -shift_of(0, p->pad_w, stride));
            each([&](const float* in, float* out) { average_strip_backward<stride>(pool, strip, across, in, out); });
        });
    };
    if (is_global(pool)) each([&](const float* in, float* out) { global_plane_backward(pool, in, out); });
    else if (!by_strips(*p, strips)) each([&](const float* in, float* out) { average_plane_backward(pool, in, out); });
    return EFL_OK;
}
