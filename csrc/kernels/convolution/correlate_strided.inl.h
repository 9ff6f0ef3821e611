// Correlation with 3x3 taps at stride 2, and its transposed, from their points (strided_points): 25 products summed
// over the source channels by the outer-product microkernel, and the results of each tile are written to their
// positions. Rounding errors are about twice those of the plain sum, and a cell that is not finite spoils all results
// of its tiles.

// Adds one product of points over the sources of pass k, for a group's targets and a chunk's tiles.
template <class Way>
static void multiply_points(const Strided<Way>& s, int64_t g, int64_t k, int64_t vectors, const float* weights,
                            const float* tiles, bool fresh, float* results) {
    const Parts terms(s.passes.size(k), MAX_TERMS), runs(vectors, s.run());
    const int64_t first = s.groups.first(g);
    for (int64_t t = 0; t < terms.count; ++t)
        for (int64_t v = 0; v < runs.count; ++v)
            for (int64_t p = 0; p < s.groups.size(g); ++p) {
                const int64_t rows = s.panels.size(first + p), begin = terms.first(t);
                const Product product{
                    .a = weights + s.weights_of(g, p) + begin * rows,
                    .b = tiles + (s.passes.first(k) + begin) * s.pitch,
                    .off = s.off,
                    .terms = terms.size(t),
                    .start = fresh && t == 0 ? s.zeros : nullptr,
                    .c = results,
                    .row = s.row + s.panels.first(first + p) - s.first_target(g),
                    .vectors = s.vector + runs.first(v),
                };
                outer_product(product, rows, runs.size(v));
            }
}

// All 25 products of pass k: results [point][target of the group][tile].
template <class Way>
static void multiply_points(const Strided<Way>& s, int64_t g, int64_t k, int64_t vectors, const float* weights,
                            float* results) {
    for (const AxisProduct& a : Way::products)
        for (const AxisProduct& b : Way::products)
            multiply_points(s, g, k, vectors, weights + (a.weight * WEIGHT_POINTS + b.weight) * s.weights_step(),
                            s.tiles + (a.data * Way::data + b.data) * s.tiles_step(), k == 0 && a.fresh && b.fresh,
                            results + (a.result * Way::results + b.result) * s.results_step());
}

// The results of a vector of tiles: rows of vectors that are a tile's columns.
template <class Way>
static inline void load_results(const float* from, int64_t step, vf bias, vf (*y)[Way::span]) {
    constexpr int R = Way::results, N = Way::span;
    vf half[N][R];
    EFL_UNROLL
    for (int col = 0; col < R; ++col) {
        vf r[R];
        EFL_UNROLL
        for (int i = 0; i < R; ++i) r[i] = load(from + (i * R + col) * step);
        Way::results_of(r, 1, &half[0][col], R);
    }
    EFL_UNROLL
    for (int i = 0; i < N; ++i) {
        Way::results_of(half[i], 1, y[i], 1);
        EFL_UNROLL
        for (int j = 0; j < N; ++j) y[i][j] = add(y[i][j], bias);
    }
}

// Writes half of a vector of tiles' results to rows of the target, `row` floats apart, of which `rows` and `cols`
// count.
template <class Way, bool UPPER>
static inline void store_tiles(const vf (*y)[Way::span], float* to, int64_t row, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; ++i) Way::template store_half<UPPER>(to + i * row, y[i], cols);
}

// The results of one target under a strip to its plane.
template <class Way>
static void write_plane(const Strided<Way>& s, const Strip& strip, const float* from, vf bias, float* plane) {
    constexpr int N = Way::span, HALF = N * W / 2;
    const int64_t width = s.tiling.cols, height = s.rows.count, row = s.cols.count, together = s.paired() ? 2 : 1;
    for (int64_t r = 0; r < strip.rows; r += together, from += together * width)
        for (int64_t q = 0; q < width; q += W) {
            vf y[N][N];
            load_results<Way>(from + q, s.results_step(), bias, y);
            const int64_t below = height - N * (strip.first + r), cols = row - N * q;
            float* to = plane + (height - below) * row + N * q;
            store_tiles<Way, false>(y, to, row, least(N, below), cols);
            if (together == 1 && cols > HALF) store_tiles<Way, true>(y, to + HALF, row, least(N, below), cols - HALF);
            if (together == 2 && r + 1 < strip.rows)
                store_tiles<Way, true>(y, to + N * row, row, least(N, below - N), cols);
        }
}

// The same where lanes are images: gathered in `cells`, and from there to each of them.
template <class Way>
static void write_images(const Strided<Way>& s, const Strip& strip, const float* from, vf bias, float* plane,
                         float* cells) {
    constexpr int N = Way::span;
    const int64_t tile_cols = s.tiling.cols / W, height = s.rows.count, width = s.cols.count, top = N * strip.first,
                  rows = least(N * strip.rows, height - top);
    for (int64_t i = 0; i < strip.rows * tile_cols; ++i, from += W) {
        vf y[N][N];
        load_results<Way>(from, s.results_step(), bias, y);
        const int64_t r = i / tile_cols * N, q = i % tile_cols * N;
        for (int64_t k = 0; k < least(N, rows - r); ++k)
            for (int64_t l = 0; l < least(N, width - q); ++l) store(cells + ((r + k) * width + q + l) * W, y[k][l]);
    }
    part_images(cells, rows * width, s.vectors.size(strip.image), plane + top * width,
                s.c.target_channels * height * width);
}

// Writes the results of a group and chunk to their positions in the target.
template <class Way>
static void write_results(const Strided<Way>& s, int64_t g, int64_t chunk, const float* results, float* cells) {
    const int64_t plane = s.rows.count * s.cols.count;
    for (int64_t m = 0; m < s.group_targets(g); ++m) {
        const int64_t id = id_of(s.c.targets, s.first_target(g) + m);
        const vf bias = set1(s.c.bias ? s.c.bias[id] : 0);
        const float* from = results + m * s.pitch;
        s.tiling.each_strip(chunk, [&](const Strip& strip) {
            const int64_t image = s.by_images ? s.vectors.first(strip.image) : strip.image;
            float* to = s.c.target + (image * s.c.target_channels + id) * plane;
            if (s.by_images) write_images(s, strip, from, bias, to, cells);
            else write_plane(s, strip, from, bias, to);
            from += strip.rows * s.tiling.cols;
        });
    }
}

// Groups of targets pass by a chunk of tiles, chunk after chunk.
template <class Way>
static void pass_groups(const Strided<Way>& s, int64_t blocks, int64_t macs) {
    const Parts parts(s.groups.count, (s.groups.count + blocks - 1) / blocks),
        fills(s.sources, (s.sources + blocks - 1) / blocks);
    for (int64_t i = 0; i < s.tiling.chunks.count; ++i) {
        each_block(fills.count, macs, [&](int64_t b) {
            fill_points(s, i, fills.first(b), fills.first(b) + fills.size(b), s.planes + b * s.planes_size());
        });
        each_block(parts.count, macs, [&](int64_t b) {
            float* results = s.results + b * s.results_size();
            for (int64_t g = parts.first(b); g < parts.first(b) + parts.size(b); ++g) {
                float* weights = s.weights + (s.whole ? g : b) * s.weights_size();
                for (int64_t k = 0; k < s.passes.count; ++k) {
                    if (!s.whole) transform_weights(s, g, k, weights);
                    multiply_points(s, g, k, (s.tiling.tiles(i) + W - 1) / W, weights, results);
                }
                write_results(s, g, i, results, s.planes + b * s.planes_size());
            }
        });
    }
}

template <class Way>
static efl_status correlate_strided(const Correlation& c, const TileAxis& rows, const TileAxis& cols) {
    Strided<Way> s(c, rows, cols);
    const int64_t macs =
        AXIS_PRODUCTS * AXIS_PRODUCTS * s.sources * s.targets * s.tiling.rows * s.tiling.cols * c.batch;
    const int64_t blocks = blocks_of(s.groups.count, macs);
    if (!place([&](Carve& carve) { s.lay_out(carve, blocks); })) return EFL_NO_MEMORY;
    for (int64_t i = 0; i < s.sources; ++i) s.off[i] = i * s.pitch * OFF_UNIT;
    for (int64_t m = 0; m < s.group_targets(0); ++m) s.row[m] = m * s.pitch;
    for (int64_t v = 0; v * W < s.tiling.most(); ++v) s.vector[v] = Vector{v * W, v * W, W};
    zero_floats(s.zeros, MAX_ROWS);
    if (s.whole)
        each_block(s.groups.count, macs,
                   [&](int64_t g) { transform_weights(s, g, 0, s.weights + g * s.weights_size()); });
    pass_groups(s, blocks, macs);
    return EFL_OK;
}
