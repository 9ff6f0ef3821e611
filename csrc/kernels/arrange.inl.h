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

static efl_status upsample_forward_f32(const efl_scaling* scaling, const float* x, float* y) {
    const efl_scaling& s = *scaling;
    const int64_t width = s.width * s.scale_w;
    split(s.planes * s.height, width * s.scale_h, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
            const float* const from = x + row * s.width;
            float* const to = y + row * s.scale_h * width;
            for (int64_t w = 0; w < s.width; ++w)
                for (int64_t k = 0; k < s.scale_w; ++k) to[w * s.scale_w + k] = from[w];
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
            for (int64_t w = 0; w < s.width; ++w) {
                float total = 0;
                for (int64_t k = 0; k < s.scale_h; ++k)
                    for (int64_t m = 0; m < s.scale_w; ++m)
                        total += dy[(row * s.scale_h + k) * width + w * s.scale_w + m];
                dx[row * s.width + w] = total;
            }
    });
    return EFL_OK;
}
