// Channels put side by side and taken apart, planes with room around them, repeated cells, axes exchanged, rows of a
// table: copies, and sums of cells.

// Rows of `length` floats between two arrays, each with a stride of its own.
static void copy_rows(const float* from, int64_t from_stride, int64_t rows, int64_t length, float* to,
                      int64_t to_stride) {
    split(rows, length, [=](int64_t first, int64_t last) {
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
    split(r.planes, r.out_height * r.out_width, [=](int64_t first, int64_t last) {
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
    split(r.planes, r.height * r.width, [=](int64_t first, int64_t last) {
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
    split(s.planes * s.height, width * s.scale_h, [=](int64_t first, int64_t last) {
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
    split(s.planes * s.height, width * s.scale_h, [=](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row)
            sum_blocks(dy + row * s.scale_h * width, s.scale_h, s.width, s.scale_w, dx + row * s.width);
    });
    return EFL_OK;
}

// ---- axes exchanged, and rows of a table

// to[k * step] = lane m of row(m)[at + k], for k < W and m < W: a square turned by vectors.
template <class Row>
static inline void turned_square(const Row& row, int64_t at, float* to, int64_t step) {
    vf vectors[W];
    EFL_UNROLL
    for (int m = 0; m < W; ++m) vectors[m] = load(row(m) + at);
    turn(vectors);
    EFL_UNROLL
    for (int k = 0; k < W; ++k) store(to + k * step, vectors[k]);
}

// y[c * rows + r] = row(r)[c] for r in [first, last), of `cols` columns.
template <class Row>
static void turned_rows(int64_t first, int64_t last, int64_t rows, int64_t cols, const Row& row, float* y) {
    int64_t r = first;
    for (; r + W <= last; r += W) {
        int64_t c = 0;
        for (; c + W <= cols; c += W) turned_square([&](int m) { return row(r + m); }, c, y + c * rows + r, rows);
        for (; c < cols; ++c)
            for (int m = 0; m < W; ++m) y[c * rows + r + m] = row(r + m)[c];
    }
    for (; r < last; ++r)
        for (int64_t c = 0; c < cols; ++c) y[c * rows + r] = row(r)[c];
}

// Rows are shared among the threads by whole vectors.
static int64_t vectors_of(int64_t n) { return (n + W - 1) / W; }

static efl_status transpose_f32(const float* x, efl_int64 batch, efl_int64 rows, efl_int64 cols, efl_int64 inner,
                                float* y) {
    const int64_t size = rows * cols * inner, blocks = vectors_of(rows);
    split(batch * blocks, W * cols * inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t r = i % blocks * W, end = least(r + W, rows);
            const float* const from = x + i / blocks * size;
            float* const to = y + i / blocks * size;
            if (inner == 1) turned_rows(r, end, rows, cols, [&](int64_t k) { return from + k * cols; }, to);
            else
                for (int64_t k = r; k < end; ++k)
                    for (int64_t c = 0; c < cols; ++c)
                        memcpy(to + (c * rows + k) * inner, from + (k * cols + c) * inner,
                               size_t(inner) * sizeof(float));
        }
    });
    return EFL_OK;
}

static efl_status embedding_forward_f32(const float* ids, efl_int64 batch, efl_int64 length, const float* weight,
                                        efl_int64, efl_int64 features, float* y) {
    const int64_t blocks = vectors_of(length);
    split(batch * blocks, W * features, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / blocks, t = i % blocks * W;
            const auto row = [&](int64_t k) { return weight + int64_t(ids[b * length + k]) * features; };
            turned_rows(t, least(t + W, length), length, features, row, y + b * length * features);
        }
    });
    return EFL_OK;
}

// The columns [first, first + n) of dweight gain the gradients of the output of one image, position by position.
static void embedding_image(const float* dy, const float* ids, int64_t length, efl_index cols, int64_t first, int n,
                            int64_t width, int64_t padding, float* dweight) {
    const auto channel = [&](int m) { return dy + id_of(cols, first + m) * length; };
    float turned[W * W];
    for (int64_t t = 0; t < length; t += W) {
        const int positions = int(least(W, length - t));
        if (n == W && positions == W) turned_square(channel, t, turned, W);
        else
            for (int k = 0; k < positions; ++k)
                for (int m = 0; m < n; ++m) turned[k * W + m] = channel(m)[t + k];
        for (int k = 0; k < positions; ++k) {
            const int64_t id = int64_t(ids[t + k]);
            float* const to = dweight + id * width + first;
            if (id != padding) store_n(to, add(load_n(to, n), load_n(turned + k * W, n)), n);
        }
    }
}

static efl_status embedding_backward_f32(const float* dy, const float* ids, efl_int64 batch, efl_int64 features,
                                         efl_int64 length, efl_int64 rows, efl_int32 padding, efl_index cols,
                                         float* dweight) {
    const int64_t width = count_of(cols, features);
    split(rows, width, [=](int64_t first, int64_t last) {
        memset(dweight + first * width, 0, size_t((last - first) * width) * sizeof(float));
    });
    split(vectors_of(width), batch * length * W, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            for (int64_t b = 0; b < batch; ++b)
                embedding_image(dy + b * features * length, ids + b * length, length, cols, i * W,
                                int(least(W, width - i * W)), width, padding, dweight);
    });
    return EFL_OK;
}
