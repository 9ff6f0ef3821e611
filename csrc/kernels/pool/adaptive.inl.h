// Averages of windows that cover a plane, as many as are asked for: equal ones, or some longer by a cell that two
// share.

// The cells of part i out of `parts` of `size`.
struct Stretch {
    int64_t begin, end;
    inline Stretch(int64_t i, int64_t parts, int64_t size)
        : begin(i * size / parts), end(((i + 1) * size + parts - 1) / parts) {}
    inline int64_t count() const { return end - begin; }
};

// visit(output, rows, cols) for each window of a plane.
template <class Visit>
static inline void each_window(const efl_adaptive& p, const Visit& visit) {
    for (int64_t i = 0; i < p.out_height; ++i)
        for (int64_t j = 0; j < p.out_width; ++j)
            visit(i * p.out_width + j, Stretch(i, p.out_height, p.height), Stretch(j, p.out_width, p.width));
}

static efl_status adaptive_avgpool_forward_f32(const efl_adaptive* p, const float* x, float* y) {
    split(p->planes, p->height * p->width, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float* const from = x + i * p->height * p->width;
            float* const to = y + i * p->out_height * p->out_width;
            each_window(*p, [&](int64_t at, const Stretch& rows, const Stretch& cols) {
                float total = 0;
                for (int64_t h = rows.begin; h < rows.end; ++h)
                    for (int64_t w = cols.begin; w < cols.end; ++w) total += from[h * p->width + w];
                to[at] = total / float(rows.count() * cols.count());
            });
        }
    });
    return EFL_OK;
}

static efl_status adaptive_avgpool_backward_f32(const efl_adaptive* p, const float* dy, efl_int64 channels,
                                                efl_index channels_needed, float* dx) {
    const int64_t needed = count_of(channels_needed, channels), plane = p->height * p->width;
    split(p->planes / channels * needed, plane, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t at = i / needed * channels + id_of(channels_needed, i % needed);
            const float* const from = dy + at * p->out_height * p->out_width;
            float* const to = dx + at * plane;
            memset(to, 0, size_t(plane) * sizeof(float));
            each_window(*p, [&](int64_t o, const Stretch& rows, const Stretch& cols) {
                const float share = from[o] / float(rows.count() * cols.count());
                for (int64_t h = rows.begin; h < rows.end; ++h)
                    for (int64_t w = cols.begin; w < cols.end; ++w) to[h * p->width + w] += share;
            });
        }
    });
    return EFL_OK;
}
