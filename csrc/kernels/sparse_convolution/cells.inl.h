// A masked convolution's source, batch innermost: [channel][phase][row][col] of words, a word one cell of W images.

// A few images of [batch, channels, rows, cols] side by side. Those beyond the batch read as zeros.
struct SparseImages {
    const float* from[W];  // each image's first channel
    int64_t step[W];       // floats from channel to channel: 0 where there is no image
    int64_t plane;

    SparseImages(const float* x, int64_t batch, int64_t first, int64_t channels, int64_t plane_, const float* zeros)
        : plane(plane_) {
        for (int64_t m = 0; m < W; ++m) {
            const bool there = first + m < batch;
            from[m] = there ? x + (first + m) * channels * plane : zeros;
            step[m] = there ? plane : 0;
        }
    }
    void channel(int64_t c, const float** rows) const {
        for (int m = 0; m < W; ++m) rows[m] = from[m] + c * step[m];
    }
};

// n cells in a row of W images, as n words.
static inline void turn_row(const float* const* from, int64_t at, int64_t n, float* to) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        vf words[4];
        load_columns(from, at + i, words);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) store(to + (i + k) * W, words[k]);
    }
    if (i == n) return;
    if (n >= 4) {
        vf words[4];
        load_columns(from, at + n - 4, words);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) store(to + (n - 4 + k) * W, words[k]);
        return;
    }
    for (; i < n; ++i)
        for (int m = 0; m < W; ++m) to[i * W + m] = from[m][at + i];
}

// The same where a row is read by steps: its cells go to the planes of their phases.
static void turn_stepped_row(const SparseLayout& l, const float* const* from, int64_t at, int64_t down_phase,
                             float* to) {
    const SparseAxis& axis = l.along;
    for (int64_t col = axis.start > 0 ? axis.start : 0; col < axis.source; ++col) {
        const int64_t reach = col - axis.start, phase = reach % axis.step, cell = reach / axis.step;
        if (phase >= axis.source_phases || cell >= l.pitch) continue;
        float* const word = to + ((down_phase * axis.source_phases + phase) * l.phase_plane() + cell) * W;
        for (int m = 0; m < W; ++m) word[m] = from[m][at + col];
    }
}

// One row of a phase: its halo is 0.
static void fill_row(const SparseLayout& l, const float* const* from, int64_t row, int64_t down_phase, float* to) {
    const SparseAxis& axis = l.along;
    if (axis.step == 1) {
        const int64_t first = axis.start < 0 ? least(-axis.start, l.pitch) : 0;
        const int64_t last = axis.source - axis.start < first ? first : least(l.pitch, axis.source - axis.start);
        float* const at = to + down_phase * axis.source_phases * l.phase_plane() * W;
        zero_floats(at, first * W);
        if (first < last) turn_row(from, row * axis.source + axis.start + first, last - first, at + first * W);
        zero_floats(at + last * W, (l.pitch - last) * W);
        return;
    }
    for (int64_t phase = 0; phase < axis.source_phases; ++phase)
        zero_floats(to + (down_phase * axis.source_phases + phase) * l.phase_plane() * W, l.pitch * W);
    turn_stepped_row(l, from, row * axis.source, down_phase, to);
}

// A channel's cells for the band of results that begins at row `first`.
static void fill_channel(const SparseLayout& l, const float* const* from, int64_t first, float* to) {
    const SparseAxis& axis = l.down;
    if (l.whole) return turn_row(from, 0, l.plane, to);
    for (int64_t phase = 0; phase < axis.source_phases; ++phase)
        for (int64_t r = 0; r < l.band_rows(); ++r) {
            const int64_t row = (first + r) * axis.step + axis.start + phase;
            float* const at = to + r * l.pitch * W;
            if (row >= 0 && row < axis.source) fill_row(l, from, row, phase, at);
            else
                for (int64_t other = 0; other < l.along.source_phases; ++other)
                    zero_floats(at + (phase * l.along.source_phases + other) * l.phase_plane() * W, l.pitch * W);
        }
}

static void fill_cells(const SparseLayout& l, const SparseImages& images, int64_t first, float* cells) {
    split(l.channels, l.plane * W, [&](int64_t from, int64_t to) {
        for (int64_t c = from; c < to; ++c) {
            const float* rows[W];
            images.channel(c, rows);
            fill_channel(l, rows, first, cells + c * l.plane * W);
        }
    });
}
