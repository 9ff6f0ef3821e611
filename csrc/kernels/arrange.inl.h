// Channels put side by side and taken apart, planes with room around them, repeated cells: copies, and sums of cells.

// Rows of `length` floats between two arrays, each with a stride of its own.
static void copy_rows(const float* from, int64_t from_stride, int64_t rows, int64_t length, float* to,
                      int64_t to_stride) {
    split(rows, length, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            memcpy(to + i * to_stride, from + i * from_stride, size_t(length) * sizeof(float));
    });
}

static efl_status put_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                   efl_int64 first, efl_int64 all_channels, float* y) {
    copy_rows(x, channels * inner, batch, channels * inner, y + first * inner, all_channels * inner);
    return EFL_OK;
}

static efl_status get_channels_f32(const float* y, efl_int64 batch, efl_int64 all_channels, efl_int64 inner,
                                   efl_int64 first, efl_int64 channels, float* x) {
    copy_rows(y + first * inner, all_channels * inner, batch, channels * inner, x, channels * inner);
    return EFL_OK;
}

static efl_status pad_planes_f32(const efl_room* room, const float* x, float* y) {
    const efl_room& r = *room;
    split(r.planes, r.out_height * r.out_width, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            float* const to = y + i * r.out_height * r.out_width;
            memset(to, 0, size_t(r.out_height * r.out_width) * sizeof(float));
            for (int64_t h = 0; h < r.height; ++h)
                memcpy(to + (r.top + h) * r.out_width + r.left, x + (i * r.height + h) * r.width,
                       size_t(r.width) * sizeof(float));
        }
    });
    return EFL_OK;
}

static efl_status crop_planes_f32(const efl_room* room, const float* y, float* x) {
    const efl_room& r = *room;
    split(r.planes, r.height * r.width, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            for (int64_t h = 0; h < r.height; ++h)
                memcpy(x + (i * r.height + h) * r.width, y + (i * r.out_height + r.top + h) * r.out_width + r.left,
                       size_t(r.width) * sizeof(float));
    });
    return EFL_OK;
}

// Each float of a row `scale` times.
static void repeat_row(const float* from, int64_t n, int64_t scale, float* to) {
    for (int64_t w = 0; scale == 2 && w < n; w += W) {
        const int some = int(least(W, n - w));
        const vf v = load_n(from + w, some);
        store_pairs(to + 2 * w, v, v, some);
    }
    for (int64_t w = 0; scale != 2 && w < n; ++w)
        for (int64_t k = 0; k < scale; ++k) to[w * scale + k] = from[w];
}

// The sums of blocks of rows x scale floats, of n such side by side.
static void sum_blocks(const float* from, int64_t rows, int64_t n, int64_t scale, float* to) {
    const int64_t width = n * scale;
    for (int64_t w = 0; scale == 2 && w < n; w += W) {
        const int64_t some = least(W, n - w);
        vf total = zero(), a, b;
        for (int64_t k = 0; k < rows; ++k) {
            load_pair(from + k * width + 2 * w, 2 * some, &a, &b);
            total = add(total, add(evens(a, b), odds(a, b)));
        }
        store_n(to + w, total, int(some));
    }
    for (int64_t w = 0; scale != 2 && w < n; ++w) {
        float total = 0;
        for (int64_t k = 0; k < rows; ++k)
            for (int64_t m = 0; m < scale; ++m) total += from[k * width + w * scale + m];
        to[w] = total;
    }
}

static efl_status upsample_forward_f32(const efl_scaling* scaling, const float* x, float* y) {
    const efl_scaling& s = *scaling;
    const int64_t width = s.width * s.scale_w;
    split(s.planes * s.height, width * s.scale_h, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
            const float* const from = x + row * s.width;
            float* const to = y + row * s.scale_h * width;
            repeat_row(from, s.width, s.scale_w, to);
            for (int64_t k = 1; k < s.scale_h; ++k) memcpy(to + k * width, to, size_t(width) * sizeof(float));
        }
    });
    return EFL_OK;
}

static efl_status upsample_backward_f32(const efl_scaling* scaling, const float* dy, float* dx) {
    const efl_scaling& s = *scaling;
    const int64_t width = s.width * s.scale_w;
    split(s.planes * s.height, width * s.scale_h, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row)
            sum_blocks(dy + row * s.scale_h * width, s.scale_h, s.width, s.scale_w, dx + row * s.width);
    });
    return EFL_OK;
}
