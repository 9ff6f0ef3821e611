// A masked convolution's results on their way from vectors of images back to [batch, channels, rows, cols], or to where
// such vectors lie in that order.

// Where a vector's images go. Images beyond the batch go nowhere.
struct SparseTargets {
    float* to[W];    // each image's first channel
    float* vectors;  // of W images' first channel, where they stay vectors; else null
    int64_t count;

    SparseTargets(float* y, int64_t lanes, int64_t batch, int64_t first, int64_t size)
        : vectors(lanes == W ? y + first * size : nullptr), count(least(W, batch - first)) {
        for (int64_t m = 0; m < W; ++m) to[m] = m < count ? y + (first + m) * size : nullptr;
    }
};

// Writes n floats of each image from `at` on, whose vectors are at from + positions[i].
static inline void write_run(const SparseTargets& targets, int64_t at, int64_t n, const float* from,
                             const int32_t* positions, int64_t ahead) {
    int64_t i = 0;
    if (targets.vectors) {
        for (; i < n; ++i) store(targets.vectors + (at + i) * W, load(from + positions[i]));
        return;
    }
    for (; i + W <= n; i += W) {
        vf vectors[W];
        EFL_UNROLL
        for (int k = 0; k < W; ++k) {
            __builtin_prefetch(from + positions[i + k] + ahead);
            vectors[k] = load(from + positions[i + k]);
        }
        turn(vectors);
        if (targets.count == W) {
            EFL_UNROLL
            for (int m = 0; m < W; ++m) store(targets.to[m] + at + i, vectors[m]);
        } else
            for (int64_t m = 0; m < targets.count; ++m) store(targets.to[m] + at + i, vectors[m]);
    }
    if (i == n) return;
    const int rest = int(n - i);
    vf vectors[W];
    for (int k = 0; k < W; ++k) vectors[k] = k < rest ? load(from + positions[i + k]) : zero();
    turn(vectors);
    for (int64_t m = 0; m < targets.count; ++m) store_n(targets.to[m] + at + i, vectors[m], rest);
}

// Tiles of results side by side: `rows` by `cols` cells from row `down` and column `along` of every map on.
struct SparseStrip {
    int64_t down, along, rows, cols;
    int64_t first, tiles;  // of the tiles of a row
};

// How a band of results is cut into tiles, and what lies where in a strip's results: tile by tile, and in a tile row of
// the part by row, `step` floats for each.
struct SparseTiles {
    Parts cols, rows;
    int64_t abreast, step;  // tiles of a strip

    SparseTiles(int64_t height, int64_t width, int64_t most_rows, int64_t most_cols, int64_t most_cells)
        : cols(width, most_cols), rows(height, least(most_rows, most_cells / (cols.size(0) ? cols.size(0) : 1))),
          abreast(least(cols.count, 32 / (cols.size(0) ? cols.size(0) : 1))), step(rows.size(0) * cols.size(0) * W) {
        if (abreast < 1) abreast = 1;
    }
    int64_t across() const { return (cols.count + abreast - 1) / abreast; }
    int64_t strips() const { return rows.count * across(); }
    SparseStrip strip(int64_t i) const {
        const int64_t r = i / across(), first = i % across() * abreast, tiles = least(abreast, cols.count - first);
        const int64_t along = cols.first(first), end = cols.first(first + tiles);
        return {.down = rows.first(r),
                .along = along,
                .rows = rows.size(r),
                .cols = end - along,
                .first = first,
                .tiles = tiles};
    }
    // Writes where the vectors of one row's results lie, row of cells by row of cells, the phases of the stride
    // interleaved.
    void find_vectors(const SparseStrip& strip, int64_t phases, int64_t tile_floats, int32_t* vectors) const {
        for (int64_t r = 0; r < strip.rows; ++r)
            for (int64_t t = 0; t < strip.tiles; ++t) {
                const int64_t width = cols.size(strip.first + t);
                for (int64_t c = 0; c < width; ++c)
                    for (int64_t phase = 0; phase < phases; ++phase)
                        *vectors++ = int32_t(t * tile_floats + phase * step + (r * width + c) * W);
            }
    }
};

// The results of rows [first, first + count) of a strip that begins at row `down` of the maps.
static void write_strip(const SparseLayout& l, const SparseTargets& targets, const SparseStrip& strip, int64_t down,
                        int64_t first, int64_t count, const float* results, int64_t step, const int32_t* vectors) {
    const int64_t height = l.transposed ? l.conv.height : l.down.positions;
    const int64_t width = l.transposed ? l.conv.width : l.along.positions;
    const int64_t down_phases = l.down.row_phases, phases = l.along.row_phases;
    const int64_t x = strip.along * phases, length = strip.cols * phases;
    const bool joined = length == width && down_phases == 1;
    for (int64_t i = 0; i < count; i += phases) {
        const int64_t row = first + i, channel = row / l.row_phases(), phase = row % l.row_phases() / phases;
        const float* const from = results + i * step;
        const int64_t map = channel * height;
        if (joined) {
            write_run(targets, (map + down) * width, strip.rows * width, from, vectors, phases * step);
            continue;
        }
        for (int64_t r = 0; r < strip.rows; ++r) {
            const int64_t y = (down + r) * down_phases + phase;
            if (y < height)
                write_run(targets, (map + y) * width + x, least(length, width - x), from, vectors + r * length,
                          phases * step);
        }
    }
}
