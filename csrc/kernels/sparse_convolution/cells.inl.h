// A masked convolution's source, batch innermost: [channel][phase][row][col] of vectors, a vector one cell of W images.

// A source: [batch, channels, plane], or where `lanes` is W with the images innermost, [batch / W, channels, plane, W].
struct SparseSource {
    const float* x;
    int64_t batch, channels, plane, lanes;
};

// put(i, vector) for cells at + i of W images, i < n. Each image's floats are read once, a vector of them at a time.
template <class Put>
static inline void turn_cells(const float* const* from, int64_t at, int64_t n, int64_t ahead, const Put& put) {
    int64_t i = 0;
    for (; i + W <= n; i += W) {
        vf vectors[W];
        EFL_UNROLL
        for (int m = 0; m < W; ++m) __builtin_prefetch(from[m] + at + i + ahead, 0, 2);
        EFL_UNROLL
        for (int m = 0; m < W; ++m) vectors[m] = load(from[m] + at + i);
        turn(vectors);
        EFL_UNROLL
        for (int k = 0; k < W; ++k) put(i + k, vectors[k]);
    }
    if (i == n) return;
    vf vectors[W];
    for (int m = 0; m < W; ++m) vectors[m] = load_n(from[m] + at + i, int(n - i));
    turn(vectors);
    for (int k = 0; i < n; ++k, ++i) put(i, vectors[k]);
}

// One channel of W images side by side: a plane of each, or the vectors that they are already.
struct SparseChannel {
    const float* planes[W];
    const float* vectors;  // null, or [plane] of vectors

    // put(i, vector) for cells at + i, i < n.
    template <class Put>
    void each(int64_t at, int64_t n, int64_t ahead, const Put& put) const {
        if (!vectors) return turn_cells(planes, at, n, ahead, put);
        for (int64_t i = 0; i < n; ++i) put(i, load(vectors + (at + i) * W));
    }
};

// A few images of a source side by side. Those beyond the batch read as zeros.
struct SparseImages {
    const float* from[W];  // each image's first channel
    int64_t step[W];       // floats from channel to channel: 0 where there is no image
    const float* vectors;  // the first channel's, where the source has them; else null
    int64_t plane;

    SparseImages(const SparseSource& source, int64_t first, const float* zeros)
        : vectors(source.lanes == W ? source.x + first * source.channels * source.plane : nullptr),
          plane(source.plane) {
        for (int64_t m = 0; m < W; ++m) {
            const bool there = first + m < source.batch;
            from[m] = there ? source.x + (first + m) * source.channels * plane : zeros;
            step[m] = there ? plane : 0;
        }
    }
    SparseChannel channel(int64_t c) const {
        SparseChannel found;
        for (int m = 0; m < W; ++m) found.planes[m] = from[m] + c * step[m];
        found.vectors = vectors ? vectors + c * plane * W : nullptr;
        return found;
    }
};

// Where the cells of a source go, by row and by column: in vectors from the channel's first cell, or nowhere.
struct SparsePositions {
    static constexpr int64_t NOWHERE = -1;
    int64_t *rows, *cols;  // [source]

    // For the band of results that begins at row `first`.
    void find(const SparseLayout& l, int64_t first) const {
        const int64_t phases = l.along.source_phases;
        for (int64_t i = 0; i < l.down.source; ++i)
            rows[i] = position(l.down, i - first * l.down.step, l.band_rows(), l.pitch, phases * l.phase_plane());
        for (int64_t j = 0; j < l.along.source; ++j) cols[j] = position(l.along, j, l.pitch, 1, l.phase_plane());
    }

private:
    static int64_t position(const SparseAxis& axis, int64_t at, int64_t cells, int64_t pitch, int64_t phase_step) {
        const int64_t reach = at - axis.start, cell = reach / axis.step, phase = reach % axis.step;
        return reach < 0 || cell >= cells || phase >= axis.source_phases ? NOWHERE : phase * phase_step + cell * pitch;
    }
};

// Fills in a source that is read cell by cell: whole rows follow each other, `skip` floats of halo between them.
static void fill_rows(const SparseLayout& l, const SparseChannel& from, int64_t first, int64_t rows, float* to) {
    const int64_t width = l.along.source, skip = (l.pitch - width) * W;
    if (from.vectors) {
        for (int64_t r = first; r < first + rows; ++r, to += l.pitch * W)
            copy_floats(to, from.vectors + r * width * W, width * W);
        return;
    }
    int64_t left = width;
    from.each(first * width, rows * width, l.down.source * width, [&](int64_t, vf vector) {
        store(to, vector);
        to += W;
        if (--left == 0) left = width, to += skip;
    });
}

// Of rows first, first + 1, ... of the source; what is not needed goes nowhere.
static void fill_positions(const SparseLayout& l, const SparseChannel& from, int64_t first, int64_t rows,
                           const SparsePositions& positions, float* to) {
    const int64_t width = l.along.source;
    int64_t row = first, col = 0;
    from.each(first * width, rows * width, l.down.source * width, [&](int64_t, vf vector) {
        const int64_t down = positions.rows[row], along = positions.cols[col];
        if (down >= 0 && along >= 0) store(to + (down + along) * W, vector);
        if (++col == width) col = 0, ++row;
    });
}

// A channel's cells, of which a halo is zero already.
static void fill_channel(const SparseLayout& l, const SparseChannel& from, const SparsePositions& positions,
                         float* to) {
    int64_t first = 0, last = l.down.source;
    if (l.down.step > 1) return fill_positions(l, from, first, last, positions, to);
    while (first < last && positions.rows[first] == SparsePositions::NOWHERE) ++first;
    while (first < last && positions.rows[last - 1] == SparsePositions::NOWHERE) --last;
    const bool whole_rows = l.along.step == 1 && l.along.start <= 0 && l.along.source - l.along.start <= l.pitch;
    if (!whole_rows) return fill_positions(l, from, first, last - first, positions, to);
    fill_rows(l, from, first, last - first, to + (first < last ? positions.rows[first] - l.along.start : 0) * W);
}

// The cells of a channel that no source fills: for all bands at once, but for rows that only some bands have outside.
static void clear_halo(const SparseLayout& l, float* to) {
    const int64_t first = l.along.start < 0 ? least(-l.along.start, l.pitch) : 0;
    const int64_t last = least(l.pitch, l.along.source - l.along.start);
    if (l.along.step > 1 || l.down.step > 1 || last <= first) return zero_floats(to, l.plane * W);
    for (int64_t r = 0; r < l.band_rows(); ++r, to += l.pitch * W) {
        zero_floats(to, first * W);
        zero_floats(to + last * W, (l.pitch - last) * W);
    }
}

// The rows of a band that are not of the source.
static void clear_outside(const SparseLayout& l, int64_t first, float* to) {
    const SparseAxis& axis = l.down;
    for (int64_t phase = 0; phase < axis.source_phases; ++phase)
        for (int64_t r = 0; r < l.band_rows(); ++r) {
            const int64_t row = (first + r) * axis.step + axis.start + phase;
            if (row >= 0 && row < axis.source) continue;
            for (int64_t other = 0; other < l.along.source_phases; ++other)
                zero_floats(to + ((phase * l.along.source_phases + other) * l.phase_plane() + r * l.pitch) * W,
                            l.pitch * W);
        }
}

static void clear_cells(const SparseLayout& l, float* cells) {
    for (int64_t c = 0; c < l.channels; ++c) {
        clear_halo(l, cells + c * l.plane * W);
        if (l.band >= l.down.positions) clear_outside(l, 0, cells + c * l.plane * W);
    }
}

static void fill_cells(const SparseLayout& l, const SparseImages& images, const SparsePositions& positions,
                       int64_t first, float* cells) {
    positions.find(l, first);
    split(l.channels, l.plane * W, [=](int64_t from, int64_t to) {
        for (int64_t c = from; c < to; ++c) {
            if (l.band < l.down.positions) clear_outside(l, first, cells + c * l.plane * W);
            fill_channel(l, images.channel(c), positions, cells + c * l.plane * W);
        }
    });
}
