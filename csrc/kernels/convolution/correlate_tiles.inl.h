// Correlation with 3x3 taps at stride 1 by Winograd's F(2x2, 3x3): 16 products for 4 positions instead of 36.
//
// The map is cut into tiles of 2x2 positions, a few at a time. Their source cells are transformed to
// [point][source][tile], the weights to [point][panel of targets][source][target]; 16 matrix products through the
// outer-product microkernel give [point][target][tile], from which the results follow. Either all weights are
// transformed first and chunks of tiles pass by, or, where the weights are many, the tiles are and groups of targets
// pass by. Rounding errors are about twice those of the plain sum, and a cell that is not finite spoils all results of
// its tiles.

constexpr int64_t WHOLE_WEIGHTS = 1 << 20;  // floats: up to here all weights are transformed before the tiles pass by
constexpr int64_t CHUNK_TILES = 1 << 16;    // floats of tiles, or of results, at a time beside whole weights
constexpr int64_t MOST_TILES = 100;  // of few channels: more would gain up to a tenth and take as much memory again
constexpr int64_t CHUNK_TILES_APART = 1 << 19;  // the same where the weights are transformed group by group
constexpr int64_t RUN_TILES = 1 << 12;          // floats of tiles of one point that stay in L1 while panels pass by

struct Winograd {
    const Correlation& c;
    int64_t sources, targets;
    bool whole;  // all weights fit, transformed, beside the tiles
    Tiling tiling;
    Parts panels, groups;  // targets in panels; panels in groups
    int64_t pitch;         // floats from one channel's tiles to the next: an odd number of cache lines
    int64_t *off, *row;
    Word* word;
    float *zeros, *packed, *weights, *tiles, *results, *plane;

    explicit Winograd(const Correlation& c_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          whole(POINTS * sources * targets <= WHOLE_WEIGHTS),
          tiling(c.batch, c.planes.rows.count, c.planes.cols.count, fitting()), panels(targets, MAX_ROWS),
          groups(panels.count, whole ? panels.count : GROUP_PANELS),
          pitch(((tiling.most() + W + LINE - 1) / LINE | 1) * LINE) {}

    int64_t fitting() const {
        return whole ? least(MOST_TILES, CHUNK_TILES / (POINTS * (sources > targets ? sources : targets)))
                     : CHUNK_TILES_APART / (POINTS * sources);
    }
    int64_t group_targets(int64_t g) const {
        return targets_before(groups.first(g) + groups.size(g)) - targets_before(groups.first(g));
    }
    int64_t targets_before(int64_t panel) const { return panel < panels.count ? panels.first(panel) : targets; }

    // Floats from point to point: a line more than the data, so that the 16 points of one place lie in different cache
    // sets.
    int64_t weights_step(int64_t g) const { return group_targets(g) * sources + LINE; }
    int64_t tiles_step() const { return sources * pitch + LINE; }
    int64_t results_step(int64_t g) const { return group_targets(g) * pitch + LINE; }
    // Words of tiles that stay in L1 for all their sources.
    int64_t run() const {
        const int64_t fit = RUN_TILES / (least(sources, MAX_TERMS) * W);
        return fit < 2 ? 2 : fit;
    }
    int64_t packed_size() const { return 9 * sources * MAX_ROWS + W; }
    int64_t tiles_size() const { return POINTS * tiles_step(); }
    int64_t results_size() const { return POINTS * results_step(0) + 2 * W; }
    int64_t plane_size() const { return 2 * (2 * tiling.strips.size(0) + 2) * (tiling.cols + 1) + 3 * W; }

    void lay_out(Carve& carve, int64_t blocks) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(group_targets(0));
        word = carve.take<Word>((tiling.most() + W - 1) / W);
        zeros = carve.take<float>(MAX_ROWS);
        packed = carve.take<float>((whole ? 1 : blocks) * packed_size());
        weights = carve.take<float>((whole ? 1 : blocks) * POINTS * weights_step(0));
        tiles = carve.take<float>((whole ? blocks : 1) * tiles_size());
        results = carve.take<float>(blocks * results_size());
        plane = carve.take<float>(blocks * plane_size());
    }
};

// The points of a plane row, along it: those of the tile in lane l are made of the cells from 2 l on.
static inline void row_points(const float* from, vf* d) {
    const vf a = load(from), b = load(from + W), c = load(from + 2), e = load(from + 2 + W);
    d[0] = evens(a, b), d[1] = odds(a, b), d[2] = evens(c, e), d[3] = odds(c, e);
    input_points(d, 1);
}

// The tiles of a plane, `rows` by `width`: [point][tile]. Words of a row overlap where they would not fit; a row
// shorter than a word runs into the next, which comes later. Up to W floats past the last row are overwritten.
static void transform_plane(const float* plane, int64_t pitch, int64_t rows, int64_t width, float* to, int64_t step) {
    for (int64_t q = 0; q < width; q += W) {
        const int64_t first = width < W ? 0 : least(q, width - W);
        const float* from = plane + 2 * first;
        float* point = to + first;
        vf upper[8], lower[8];  // rows two and two; a tile shares its lower ones with the tile below
        row_points(from, upper);
        row_points(from + pitch, upper + 4);
        for (int64_t r = 0; r < rows; ++r, point += width) {
            from += 2 * pitch;
            row_points(from, lower);
            row_points(from + pitch, lower + 4);
            EFL_UNROLL
            for (int f = 0; f < 4; ++f) {
                store(point + f * step, sub(upper[f], lower[f]));
                store(point + (4 + f) * step, add(upper[4 + f], lower[f]));
                store(point + (8 + f) * step, sub(lower[f], upper[4 + f]));
                store(point + (12 + f) * step, sub(upper[4 + f], lower[4 + f]));
            }
            EFL_UNROLL
            for (int f = 0; f < 8; ++f) upper[f] = lower[f];
        }
    }
}

// The tiles of sources [first, last) in a chunk: [point][source][tile].
static void fill_tiles(const Winograd& w, int64_t first, int64_t last, int64_t chunk, float* plane, float* tiles) {
    const Correlation& c = w.c;
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    const int64_t source_plane = rows.source * cols.source, width = w.tiling.cols;
    const Axis plane_cols = forward_axis(cols.source, 2 * width, 3, 1, -cols.origin, 1);
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        const Planes planes(forward_axis(rows.source, 2 * strip.rows, 3, 1, -rows.origin - 2 * strip.first, 1),
                            plane_cols);
        const float* source = c.source + strip.image * c.source_channels * source_plane;
        CellBlock block;
        const CellCopies cells = planes.copies(&block);
        zero_floats(plane, planes.size());
        for (int64_t s = first; s < last; ++s) {
            cells.fill(source + id_of(c.sources, s) * source_plane, plane);
            transform_plane(plane, planes.pitch, strip.rows, width, tiles + s * w.pitch, w.tiles_step());
        }
        tiles += strip.rows * width;
    });
}

// Panels of a group: [point][panel][source][row of the panel]. A word's spare lanes are overwritten by what follows.
static void transform_weights(const Winograd& w, int64_t g, const int64_t* taps, float* packed, float* to) {
    const Correlation& c = w.c;
    const int64_t step = w.weights_step(g), run = c.transposed || c.sources.ids ? 1 : w.sources;
    for (int64_t p = w.groups.first(g); p < w.groups.first(g) + w.groups.size(g); ++p) {
        const int64_t rows = w.panels.size(p);
        const float* from[MAX_ROWS];
        for (int64_t s = 0; s < w.sources; s += run) {
            for (int64_t m = 0; m < rows; ++m)
                from[m] = c.weight_of(id_of(c.sources, s), id_of(c.targets, w.panels.first(p) + m));
            interleave(from, rows, 9 * run, packed + 9 * s * rows, rows);
        }
        for (int64_t s = 0; s < w.sources; ++s, to += rows)
            for (int64_t m = 0; m < rows; m += W) {
                vf taken[9], turned[12], points[POINTS];
                EFL_UNROLL
                for (int t = 0; t < 9; ++t) taken[t] = load(packed + (9 * s + taps[t]) * rows + m);
                EFL_UNROLL
                for (int q = 0; q < 3; ++q) weight_points(taken + q, 3, turned + q, 3);
                EFL_UNROLL
                for (int r = 0; r < 4; ++r) weight_points(turned + 3 * r, 1, points + 4 * r, 1);
                EFL_UNROLL
                for (int f = 0; f < POINTS; ++f) store(to + f * step + m, points[f]);
            }
    }
}

// The products of a group's targets with a chunk's tiles: results [point][target of the group][tile].
static void multiply_points(const Winograd& w, int64_t g, int64_t words, const float* weights, const float* tiles,
                            float* results) {
    const Parts passes(w.sources, MAX_TERMS), runs(words, w.run());
    const int64_t base = w.targets_before(w.groups.first(g));
    for (int64_t f = 0; f < POINTS; ++f)
        for (int64_t k = 0; k < passes.count; ++k)
            for (int64_t v = 0; v < runs.count; ++v)
                for (int64_t p = w.groups.first(g); p < w.groups.first(g) + w.groups.size(g); ++p) {
                    const int64_t rows = w.panels.size(p), m = w.panels.first(p) - base, s = passes.first(k);
                    const Product product{
                        .a = weights + f * w.weights_step(g) + m * w.sources + s * rows,
                        .b = tiles + f * w.tiles_step() + s * w.pitch,
                        .off = w.off,
                        .terms = passes.size(k),
                        .start = k ? nullptr : w.zeros,
                        .c = results + f * w.results_step(g),
                        .row = w.row + m,
                        .words = w.word + runs.first(v),
                    };
                    outer_product(product, rows, runs.size(v));
                }
}

static void write_results(const Winograd& w, int64_t g, int64_t chunk, const float* results) {
    const Correlation& c = w.c;
    const int64_t step = w.results_step(g), first = w.targets_before(w.groups.first(g)), width = w.tiling.cols;
    for (int64_t m = 0; m < w.group_targets(g); ++m) {
        const int64_t id = id_of(c.targets, first + m);
        const vf bias = set1(c.bias ? c.bias[id] : 0);
        const float* from = results + m * w.pitch;
        w.tiling.each_strip(chunk, [&](const Strip& strip) {
            float* plane = c.target + (strip.image * c.target_channels + id) * c.target_plane;
            for (int64_t r = strip.first; r < strip.first + strip.rows; ++r, from += width)
                for (int64_t q = 0; q < width; q += W) {
                    vf y[4];
                    result_points(from + q, step, bias, y);
                    const int64_t count = least(2 * W, c.planes.cols.count - 2 * q);
                    float* to = plane + 2 * r * c.target_row + 2 * q;
                    store_zipped(to, y[0], y[1], count);
                    if (2 * r + 1 < c.planes.rows.count) store_zipped(to + c.target_row, y[2], y[3], count);
                }
        });
    }
}

// Where the taps of a 3x3 kernel lie, in the order of the cells they meet.
static void order_taps(const Planes& planes, int64_t* taps) {
    for (int64_t h = 0; h < 3; ++h)
        for (int64_t q = 0; q < 3; ++q)
            taps[(planes.rows.shift(h) - planes.rows.origin) * 3 + planes.cols.shift(q) - planes.cols.origin] =
                h * 3 + q;
}

// Chunks of tiles pass by all weights.
static void pass_tiles(const Winograd& w, const int64_t* taps, int64_t blocks, int64_t macs) {
    const Parts parts(w.tiling.chunks.count, (w.tiling.chunks.count + blocks - 1) / blocks);
    transform_weights(w, 0, taps, w.packed, w.weights);
    each_block(parts.count, macs, [&](int64_t b) {
        float *tiles = w.tiles + b * w.tiles_size(), *results = w.results + b * w.results_size();
        for (int64_t i = parts.first(b); i < parts.first(b) + parts.size(b); ++i) {
            fill_tiles(w, 0, w.sources, i, w.plane + b * w.plane_size(), tiles);
            multiply_points(w, 0, (w.tiling.tiles(i) + W - 1) / W, w.weights, tiles, results);
            write_results(w, 0, i, results);
        }
    });
}

// Groups of targets pass by a chunk of tiles, chunk after chunk.
static void pass_weights(const Winograd& w, const int64_t* taps, int64_t blocks, int64_t macs) {
    const Parts parts(w.groups.count, (w.groups.count + blocks - 1) / blocks),
        fills(w.sources, (w.sources + blocks - 1) / blocks);
    for (int64_t i = 0; i < w.tiling.chunks.count; ++i) {
        each_block(fills.count, macs, [&](int64_t b) {
            fill_tiles(w, fills.first(b), fills.first(b) + fills.size(b), i, w.plane + b * w.plane_size(), w.tiles);
        });
        each_block(parts.count, macs, [&](int64_t b) {
            float *weights = w.weights + b * POINTS * w.weights_step(0), *results = w.results + b * w.results_size();
            for (int64_t g = parts.first(b); g < parts.first(b) + parts.size(b); ++g) {
                transform_weights(w, g, taps, w.packed + b * w.packed_size(), weights);
                multiply_points(w, g, (w.tiling.tiles(i) + W - 1) / W, weights, w.tiles, results);
                write_results(w, g, i, results);
            }
        });
    }
}

static efl_status correlate_tiles(const Correlation& c) {
    Winograd w(c);
    const int64_t macs = POINTS * w.sources * w.targets * w.tiling.rows * w.tiling.cols * c.batch;
    const int64_t blocks = blocks_of(w.whole ? w.tiling.chunks.count : w.groups.count, macs);
    if (!place([&](Carve& carve) { w.lay_out(carve, blocks); })) return EFL_NO_MEMORY;
    int64_t taps[9];
    order_taps(c.planes, taps);
    for (int64_t s = 0; s < w.sources; ++s) w.off[s] = s * w.pitch;
    for (int64_t m = 0; m < w.group_targets(0); ++m) w.row[m] = m * w.pitch;
    for (int64_t v = 0; v * W < w.tiling.most(); ++v) w.word[v] = Word{v * W, v * W, W};
    zero_floats(w.zeros, MAX_ROWS);
    if (w.whole) pass_tiles(w, taps, blocks, macs);
    else pass_weights(w, taps, blocks, macs);
    return EFL_OK;
}
