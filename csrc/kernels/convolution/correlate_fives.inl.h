// Correlation with 5x5 taps at stride 1 by 49 products for 2x2 positions (five_points.inl.h).
//
// All weights are transformed first, to [pass][panel of targets][point][source][target]; a few tiles at a time, and of
// them a few sources, are transformed to [point][run of vectors][source][tile], so that what goes by stays in L2.
// Rounding errors are about twice those of the plain sum, and a cell that is not finite spoils all results of its
// tiles.

constexpr int64_t FIVES_TILES = 48;    // of a chunk
constexpr int64_t FIVES_SOURCES = 16;  // transformed at a time
constexpr int64_t FIVES_RUN = 2;       // vectors of tiles that stay in L1 while panels pass by

struct Fives {
    const Correlation& c;
    int64_t sources, targets;
    Tiling tiling;
    Parts panels, passes;            // targets in panels; sources as their tiles are transformed
    int64_t strip_vectors, vectors;  // of a strip, of a chunk
    int64_t pitch;                   // floats from one target's results to the next
    int64_t *off, *row;
    Vector* vector;
    float *zeros, *weights, *tiles, *results, *plane, *lines;

    explicit Fives(const Correlation& c_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          tiling(c.batch, c.planes.rows.count, c.planes.cols.count, 1, FIVES_TILES), panels(targets, MAX_ROWS),
          passes(sources, fitting()), strip_vectors((tiling.strips.size(0) * tiling.cols + W - 1) / W),
          vectors((tiling.chunks.size(0) * strip_vectors + FIVES_RUN - 1) / FIVES_RUN * FIVES_RUN), pitch(vectors * W) {
    }

    // Their transformed tiles take a quarter of the weights' memory at most.
    int64_t fitting() const {
        const int64_t fit = sources * targets / (4 * tiling.most());
        return fit < 1 ? 1 : least(fit, FIVES_SOURCES);
    }
    int64_t lanes_of_image() const { return tiling.strips.count * strip_vectors * W; }
    // Where panel p starts for pass k: of a pass, all panels lie side by side.
    int64_t weights_of(int64_t k, int64_t p) const {
        return FIVE_POINTS * (passes.first(k) * targets + passes.size(k) * panels.first(p));
    }
    const int64_t* off_of(int64_t k) const {
        return off + (passes.size(k) < passes.size(0) ? FIVE_POINTS * passes.size(0) : 0);
    }
    // Floats from point to point; a cache line more than the data, so that the points of a position lie in different
    // cache sets.
    int64_t tiles_step() const { return passes.size(0) * vectors * W + LINE; }
    int64_t vector_at(int64_t v, int64_t sources_of_pass) const {
        return (v / FIVES_RUN * FIVES_RUN * sources_of_pass + v % FIVES_RUN) * W;
    }
    int64_t results_step() const { return targets * pitch + LINE; }
    // Of one point along rows and one parity of row, all rows of tiles and two more.
    int64_t lines_step() const { return (tiling.strips.size(0) + 2) * tiling.cols + W; }
    int64_t plane_size() const { return (2 * tiling.strips.size(0) + SPAN) * (2 * tiling.cols + SPAN) + 3 * W; }
    int64_t lines_size() const { return 2 * LINE_POINTS * lines_step() + W; }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(2 * FIVE_POINTS * passes.size(0));
        row = carve.take<int64_t>(targets);
        vector = carve.take<Vector>(2 * vectors);
        zeros = carve.take<float>(MAX_ROWS);
        weights = carve.take<float>(FIVE_POINTS * sources * targets);
        tiles = carve.take<float>(crew * FIVE_POINTS * tiles_step());
        results = carve.take<float>(crew * (POINTS * results_step() + W));
        plane = carve.take<float>(crew * plane_size());
        lines = carve.take<float>(crew * lines_size());
    }
    const Vector* vectors_of(int64_t k) const { return vector + (passes.size(k) < passes.size(0) ? vectors : 0); }
};

// 5x5 taps at stride 1, channels that pay for the transforms, and vectors of tiles that are mostly full (measured with
// AVX-512: 64 to 64 channels at 16x16 .7 of the time, 50 to 20 at 12x12 1.2).
static bool prefers_fives(const Correlation& c) {
    const auto plain = [](const Axis& axis) {
        return axis.taps == FIVE && axis.kernel == FIVE && axis.last - axis.origin == FIVE - 1 && axis.step == 1;
    };
    if (c.groups != 1 || !plain(c.planes.rows) || !plain(c.planes.cols) || c.target_col != 1) return false;
    const int64_t sources = count_of(c.sources, c.source_channels), targets = count_of(c.targets, c.target_channels);
    if (FIVE_POINTS * sources * targets > FIVES_WEIGHTS || sources * targets < FIVES_BALANCE * (sources + targets))
        return false;
    const Fives fives(c);
    return c.batch * fives.tiling.rows * fives.tiling.cols >= 32 &&
           3 * FIVE_POINTS * fives.lanes_of_image() <= 2 * FIVE * FIVE * c.positions();
}

// The points of the weights of sources [first, first + count) for panel p: [point][source][row of the panel].
static void transform_fives(const Fives& w, int64_t p, int64_t first, int64_t count, float* to) {
    const Correlation& c = w.c;
    const int64_t rows = w.panels.size(p);
    for (int64_t m = 0; m < rows; m += W) {
        const float* from[W];
        for (int64_t l = 0; l < W; ++l)
            from[l] = c.weight_of(0, id_of(c.targets, w.panels.first(p) + least(m + l, rows - 1)));
        for (int64_t s = 0; s < count; ++s) {
            const int64_t at = c.weight_of(id_of(c.sources, first + s), 0) - c.weight;
            vf taps[FIVE * FIVE + 3], turned[FIVE * LINE_POINTS];
            for (int k = 0; k < 6; ++k) load_columns(from, at + 4 * k, taps + 4 * k);
            load_columns(from, at + 21, taps + 24);
            taps[24] = taps[27];
            // Turned taps are met in reverse.
            const int last = c.transposed ? FIVE * FIVE - 1 : 0, by = c.transposed ? -1 : 1;
            for (int r = 0; r < FIVE; ++r) five_weights(taps + last + by * FIVE * r, by, turned + LINE_POINTS * r);
            for (int b = 0; b < LINE_POINTS; ++b) {
                vf points[LINE_POINTS];
                five_weights(turned + b, LINE_POINTS, points);
                for (int a = 0; a < LINE_POINTS; ++a)
                    store_n(to + (FIVE_ORDER.position[a][b] * count + s) * rows + m, points[a],
                            int(least(W, rows - m)));
            }
        }
    }
}

// The points along each row of a plane: [point][parity of row][row / 2][tile]. A row shorter than a vector runs into
// the next, which comes later.
static void transform_rows(const Fives& w, const float* plane, int64_t pitch, int64_t height, float* lines) {
    const int64_t width = w.tiling.cols, step = w.lines_step();
    for (int64_t r = 0; r < height; ++r, plane += pitch)
        for (int64_t q = 0; q < width; q += W) {
            const int64_t first = width < W ? 0 : least(q, width - W);
            const float* from = plane + 2 * first;
            float* to = lines + r % 2 * step + r / 2 * width + first;
            vf d[SPAN], points[LINE_POINTS];
            EFL_UNROLL
            for (int i = 0; i < SPAN; i += 2) {
                const vf a = load(from + i), b = load(from + i + W);
                d[i] = evens(a, b), d[i + 1] = odds(a, b);
            }
            five_data(d, points);
            EFL_UNROLL
            for (int b = 0; b < LINE_POINTS; ++b) store(to + 2 * b * step, points[b]);
        }
}

// From there the points of tiles [0, count): [point][run of vectors][source][tile], vectors from `vector` on.
static void transform_lines(const Fives& w, const float* lines, int64_t count, const Vector* vector, float* to) {
    const int64_t step = w.lines_step(), width = w.tiling.cols;
    for (int64_t t = 0; t < count; t += W, ++vector)
        for (int b = 0; b < LINE_POINTS; ++b) {
            const float* from = lines + 2 * b * step + t;
            vf d[SPAN], points[LINE_POINTS];
            EFL_UNROLL
            for (int i = 0; i < SPAN; ++i) d[i] = load(from + i % 2 * step + i / 2 * width);
            five_data(d, points);
            EFL_UNROLL
            for (int a = 0; a < LINE_POINTS; ++a)
                store(to + FIVE_ORDER.position[a][b] * w.tiles_step() + vector->from, points[a]);
        }
}

// The tiles of the sources of pass k in a chunk.
static void fill_fives(const Fives& w, int64_t k, int64_t chunk, float* plane, float* lines, float* tiles) {
    const Correlation& c = w.c;
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    const int64_t source_plane = rows.source * cols.source;
    const Axis plane_cols = forward_axis(cols.source, 2 * w.tiling.cols, FIVE, 1, -cols.origin, 1);
    const Vector* vector = w.vectors_of(k);
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        const Planes planes(forward_axis(rows.source, 2 * strip.rows, FIVE, 1, -rows.origin - 2 * strip.first, 1),
                            plane_cols);
        const float* source = c.source + strip.image * c.source_channels * source_plane;
        CellBlock block;
        const CellCopies cells = planes.copies(&block);
        zero_floats(plane, w.plane_size());
        for (int64_t s = 0; s < w.passes.size(k); ++s) {
            cells.fill(source + id_of(c.sources, w.passes.first(k) + s) * source_plane, plane);
            transform_rows(w, plane, planes.pitch, planes.height, lines);
            transform_lines(w, lines, strip.rows * w.tiling.cols, vector, tiles + s * FIVES_RUN * W);
        }
        vector += w.strip_vectors;
    });
}

// Adds the products of pass k: results [result][target][tile].
static void multiply_fives(const Fives& w, int64_t k, int64_t vectors, const float* tiles, float* results) {
    const int64_t size = w.passes.size(k);
    const Parts runs(vectors, FIVES_RUN);
    for (int64_t r = 0; r < POINTS; ++r)
        for (int64_t v = 0; v < runs.count; ++v)
            for (int64_t p = 0; p < w.panels.count; ++p) {
                const int64_t first = FIVE_ORDER.first[r] * size, rows = w.panels.size(p);
                const Product product{
                    .a = w.weights + w.weights_of(k, p) + first * rows,
                    .b = tiles,
                    .off = w.off_of(k) + first,
                    .terms = FIVE_ORDER.first[r + 1] * size - first,
                    .start = k ? nullptr : w.zeros,
                    .c = results + r * w.results_step(),
                    .row = w.row + w.panels.first(p),
                    .vectors = w.vectors_of(k) + runs.first(v),
                };
                outer_product(product, rows, runs.size(v));
            }
}

// Writes the results of a chunk to their positions in the target.
static void write_fives(const Fives& w, int64_t chunk, const float* results) {
    const Correlation& c = w.c;
    const int64_t width = w.tiling.cols;
    for (int64_t m = 0; m < w.targets; ++m) {
        const int64_t id = id_of(c.targets, m);
        const vf bias = set1(c.bias ? c.bias[id] : 0);
        const float* from = results + m * w.pitch;
        w.tiling.each_strip(chunk, [&](const Strip& strip) {
            float* plane = c.target + (strip.image * c.target_channels + id) * c.target_plane;
            for (int64_t i = 0; i < strip.rows; ++i)
                for (int64_t q = 0; q < width; q += W) {
                    vf y[4];
                    result_points(from + i * width + q, w.results_step(), bias, y);
                    const int64_t count = least(2 * W, c.planes.cols.count - 2 * q), r = 2 * (strip.first + i);
                    float* to = plane + r * c.target_row + 2 * q;
                    store_zipped(to, y[0], y[1], count);
                    if (r + 1 < c.planes.rows.count) store_zipped(to + c.target_row, y[2], y[3], count);
                }
            from += w.strip_vectors * W;
        });
    }
}

// The tables of vectors and terms for passes of `size` sources.
static void tabulate_fives(const Fives& w, int64_t size, Vector* vector, int64_t* off) {
    for (int64_t v = 0; v < w.vectors; ++v) vector[v] = Vector{w.vector_at(v, size), v * W, W};
    for (int64_t n = 0; n < FIVE_POINTS; ++n)
        for (int64_t s = 0; s < size; ++s) *off++ = (n * w.tiles_step() + s * FIVES_RUN * W) * OFF_UNIT;
}

static efl_status correlate_fives(const Correlation& c) {
    Fives w(c);
    const int64_t macs = FIVE_POINTS * w.sources * w.targets * w.tiling.rows * w.tiling.cols * c.batch;
    const int64_t blocks = blocks_of(w.tiling.chunks.count, macs), crew = threads_for(blocks);
    if (!place([&](Carve& carve) { w.lay_out(carve, crew); })) return EFL_NO_MEMORY;
    const int64_t most = w.passes.size(0), fewest = w.passes.size(w.passes.count - 1);
    tabulate_fives(w, most, w.vector, w.off);
    tabulate_fives(w, fewest, w.vector + w.vectors, w.off + FIVE_POINTS * most);
    for (int64_t m = 0; m < w.targets; ++m) w.row[m] = m * w.pitch;
    zero_floats(w.zeros, MAX_ROWS);
    zero_floats(w.tiles, crew * FIVE_POINTS * w.tiles_step());
    zero_floats(w.lines, crew * w.lines_size());
    each_block(w.passes.count * w.panels.count, macs, [&](int64_t i) {
        const int64_t k = i / w.panels.count, p = i % w.panels.count;
        transform_fives(w, p, w.passes.first(k), w.passes.size(k), w.weights + w.weights_of(k, p));
    });
    const Parts parts = Parts::into(w.tiling.chunks.count, blocks);
    each_block(parts.count, macs, crew, [&](int64_t b, int64_t thread) {
        float *tiles = w.tiles + thread * FIVE_POINTS * w.tiles_step(),
              *results = w.results + thread * (POINTS * w.results_step() + W);
        for (int64_t i = parts.first(b); i < parts.first(b) + parts.size(b); ++i) {
            for (int64_t k = 0; k < w.passes.count; ++k) {
                fill_fives(w, k, i, w.plane + thread * w.plane_size(), w.lines + thread * w.lines_size(), tiles);
                multiply_fives(w, k, w.tiling.chunks.size(i) * w.strip_vectors, tiles, results);
            }
            write_fives(w, i, results);
        }
    });
    return EFL_OK;
}
