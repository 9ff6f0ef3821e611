// Correlation with 3x3 taps at stride 1 by Winograd's F(2x2, 3x3): 16 products for 4 positions instead of 36.
//
// The map is cut into tiles of 2x2 positions, a few at a time. Their source cells are transformed to
// [point][source][tile], the weights to [point][panel of targets][source][target]; 16 matrix products through the
// outer-product microkernel give [point][target][tile], from which the results follow. Either all weights are
// transformed first and chunks of tiles pass by, or, where the weights are many, the tiles are and groups of targets
// pass by. Rounding errors are about twice those of the plain sum, and a cell that is not finite spoils all results of
// its tiles.

// Floats: up to here all weights are transformed before the tiles pass by. Vectors of 16 floats outrun what is beyond
// L2.
constexpr int64_t WHOLE_WEIGHTS = W < 16 ? 1 << 20 : 1 << 18;
constexpr int64_t CHUNK_TILES = 1 << 16;  // floats of tiles, or of results, at a time beside whole weights
constexpr int64_t MOST_TILES = 100;  // of few channels: more would gain up to a tenth and take as much memory again
// The same where the weights are transformed group by group, a few sources at a time, so that they stay in L2.
constexpr int64_t CHUNK_TILES_APART = 1 << 19;
constexpr int64_t MOST_TILES_APART = 128;
constexpr int64_t PASS_SOURCES = 128;
constexpr int64_t KEPT_WEIGHTS = 1 << 21;  // floats: up to here the groups' weights are kept from chunk to chunk
constexpr int64_t WEIGHT_COST = 32;     // of the transform of a target's 3x3 weights for one source, in multiply-adds
constexpr int64_t RUN_TILES = 1 << 12;  // floats of tiles of one point that stay in L1 while panels pass by

struct Winograd {
    const Correlation& c;
    int64_t sources, targets;
    bool whole;            // all weights fit, transformed, beside the tiles
    Parts vectors;         // of images
    bool by_images;        // lanes are images, not tiles of a row
    Tiling tiling;         // by_images: of vectors of images, whose tiles are side by side
    Parts panels, groups;  // targets in panels; panels in groups
    Parts passes;          // sources whose weights are transformed at a time
    bool kept;             // weights of all groups and passes are transformed once, for several chunks of tiles
    int64_t pitch;         // floats from one channel's tiles to the next: an odd number of cache lines
    int64_t *off, *row;
    Vector* vector;
    float *zeros, *weights, *tiles, *results, *plane;

    explicit Winograd(const Correlation& c_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          whole(POINTS * sources * targets <= WHOLE_WEIGHTS), vectors(c.batch, W),
          by_images(2 * c.planes.cols.count <= W && 8 * vectors.count * W <= 9 * c.batch),
          tiling(by_images ? vectors.count : c.batch, c.planes.rows.count, c.planes.cols.count, by_images ? W : 1,
                 fitting()),
          panels(targets, MAX_ROWS),
          groups(whole ? Parts::into(panels.count, 1) : Parts::shared(panels.count, GROUP_PANELS)),
          passes(sources, whole ? sources : PASS_SOURCES),
          kept(!whole && tiling.chunks.count > 1 && POINTS * sources * targets <= KEPT_WEIGHTS),
          pitch(((tiling.most() + W + LINE - 1) / LINE | 1) * LINE) {}

    int64_t fitting() const {
        return whole ? least(MOST_TILES, CHUNK_TILES / (POINTS * (sources > targets ? sources : targets)))
                     : least(MOST_TILES_APART, CHUNK_TILES_APART / (POINTS * sources));
    }
    int64_t group_targets(int64_t g) const {
        return targets_before(groups.first(g) + groups.size(g)) - targets_before(groups.first(g));
    }
    int64_t targets_before(int64_t panel) const { return panel < panels.count ? panels.first(panel) : targets; }

    // Where the taps of a source are, from those of the first one.
    int64_t weights_at(int64_t s) const { return c.weight_of(id_of(c.sources, s), 0) - c.weight; }

    // Floats from point to point: a cache line more than the data, so that the 16 points of one position lie in
    // different cache sets.
    int64_t weights_step(int64_t g) const { return weights_of(g, groups.size(g)) + LINE; }
    // Where panel k of a group starts; a cache line apart, as a vector's spare lanes are written while others are
    // filled.
    int64_t weights_of(int64_t g, int64_t k) const {
        return (targets_before(groups.first(g) + k) - targets_before(groups.first(g))) * passes.size(0) + k * LINE;
    }
    int64_t weights_size() const { return POINTS * weights_step(0); }
    int64_t tiles_step() const { return sources * (by_images ? most_vectors() * W : pitch) + LINE; }
    int64_t results_step(int64_t g) const { return group_targets(g) * pitch + LINE; }
    // Vectors of tiles that lie in whole runs.
    int64_t most_vectors() const { return ((tiling.most() + W - 1) / W + run() - 1) / run() * run(); }
    // Where a chunk's vector v starts, and how far it is from source to source: by images the tiles of a run of vectors
    // lie side by side, as rows of tiles do not fit in vectors.
    int64_t vector_at(int64_t v) const { return (by_images ? v / run() * run() * sources + v % run() : v) * W; }
    int64_t source_step() const { return by_images ? run() * W : pitch; }
    // Vectors of tiles that stay in L1 for all their sources.
    int64_t run() const {
        const int64_t fit = RUN_TILES / (least(passes.size(0), MAX_TERMS) * W);
        return fit < 2 ? 2 : fit;
    }
    int64_t tiles_size() const { return POINTS * tiles_step(); }
    int64_t results_size() const { return POINTS * results_step(0) + 2 * W; }
    int64_t plane_size() const {
        return 2 * (2 * tiling.strips.size(0) + 2) * (tiling.cols + (by_images ? W : 1)) + 3 * W;
    }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(group_targets(0));
        vector = carve.take<Vector>((tiling.most() + W - 1) / W);
        zeros = carve.take<float>(MAX_ROWS);
        weights = carve.take<float>((whole ? 1 : kept ? groups.count * passes.count : crew) * weights_size());
        tiles = carve.take<float>((whole ? crew : 1) * tiles_size());
        results = carve.take<float>(crew * results_size());
        plane = carve.take<float>(crew * plane_size());
    }
};

// The points of a plane row, along it: those of the tile in lane l are made of the cells from 2 l on.
static inline void row_points(const float* from, vf* d) {
    const vf a = load(from), b = load(from + W), c = load(from + 2), e = load(from + 2 + W);
    d[0] = evens(a, b), d[1] = odds(a, b), d[2] = evens(c, e), d[3] = odds(c, e);
    input_points(d, 1);
}

// The tiles of a plane, `rows` by `width`: [point][tile]. Vectors of a row overlap where they would not fit; a row
// shorter than a vector runs into the next, which comes later. Up to W floats past the last row are overwritten.
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
static void fill_row_tiles(const Winograd& w, int64_t first, int64_t last, int64_t chunk, float* plane, float* tiles) {
    const Correlation& c = w.c;
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    const int64_t source_plane = rows.source * cols.source, width = w.tiling.cols;
    const Axis plane_cols = forward_axis(cols.source, 2 * width, 3, 1, -cols.origin, 1);
    for (int64_t s = first; s < last; ++s)
        clear_spare_tiles(tiles + s * w.pitch, w.tiling.tiles(chunk), POINTS, w.tiles_step());
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        const Planes planes(forward_axis(rows.source, 2 * strip.rows, 3, 1, -rows.origin - 2 * strip.first, 1),
                            plane_cols);
        const float* source = c.source + strip.image * c.source_channels * source_plane;
        CellBlock block;
        const CellCopies cells = planes.copies(&block);
        zero_floats(plane, w.plane_size());
        for (int64_t s = first; s < last; ++s) {
            cells.fill(source + id_of(c.sources, s) * source_plane, plane);
            transform_plane(plane, planes.pitch, strip.rows, width, tiles + s * w.pitch, w.tiles_step());
        }
        tiles += strip.rows * width;
    });
}

// The cells of a source under a strip, images last, in a frame of zeros: [row][column][image].
static void fill_cells(const Winograd& w, const Strip& strip, int64_t source, float* cells) {
    const Axis &rows = w.c.planes.rows, &cols = w.c.planes.cols;
    const int64_t first = w.vectors.first(strip.image), width = w.tiling.cols / W * 2 + 2,
                  top = rows.origin + 2 * strip.first, right = least(width, cols.source - cols.origin);
    const float* image[W];
    for (int64_t l = 0; l < W; ++l)
        image[l] = w.c.source + ((first + least(l, w.vectors.size(strip.image) - 1)) * w.c.source_channels + source) *
                                    rows.source * cols.source;
    for (int64_t r = 0; r < 2 * strip.rows + 2; ++r, cells += width * W) {
        if (top + r < 0 || top + r >= rows.source) {
            zero_floats(cells, width * W);
            continue;
        }
        const float* from[W];
        for (int64_t l = 0; l < W; ++l) from[l] = image[l] + (top + r) * cols.source;
        interleave(from, W, right + cols.origin, cells - cols.origin * W, W);
    }
}

// The tiles of sources [first, last) in a chunk, a vector of images for each position: [point][source][tile].
static void fill_image_tiles(const Winograd& w, int64_t first, int64_t last, int64_t chunk, float* cells,
                             float* tiles) {
    const int64_t step = w.tiles_step(), tile_cols = w.tiling.cols / W, width = 2 * tile_cols + 2;
    const Vector* vector = w.vector;
    zero_floats(cells, w.plane_size());
    w.tiling.each_strip(chunk, [&](const Strip& strip) {
        for (int64_t s = first; s < last; ++s) {
            fill_cells(w, strip, id_of(w.c.sources, s), cells);
            for (int64_t i = 0; i < strip.rows * tile_cols; ++i) {
                float* to = tiles + vector[i].from + s * w.source_step();
                const float* from = cells + (i / tile_cols * width + i % tile_cols) * 2 * W;
                vf d[POINTS];
                EFL_UNROLL
                for (int f = 0; f < POINTS; ++f) d[f] = load(from + (f / 4 * width + f % 4) * W);
                EFL_UNROLL
                for (int k = 0; k < 4; ++k) input_points(d + 4 * k, 1);
                EFL_UNROLL
                for (int k = 0; k < 4; ++k) input_points(d + k, 4);
                EFL_UNROLL
                for (int f = 0; f < POINTS; ++f) store(to + f * step, d[f]);
            }
        }
        vector += strip.rows * tile_cols;
    });
}

static void fill_tiles(const Winograd& w, int64_t first, int64_t last, int64_t chunk, float* plane, float* tiles) {
    return w.by_images ? fill_image_tiles(w, first, last, chunk, plane, tiles)
                       : fill_row_tiles(w, first, last, chunk, plane, tiles);
}

// Where point f of weights goes. Turned taps have the same points in another order: the outer ones are swapped.
static int64_t point_position(int64_t f, bool turned) {
    const auto position = [turned](int64_t i) { return turned && i % 3 == 0 ? 3 - i : i; };
    return 4 * position(f / 4) + position(f % 4);
}

// The points of the weights of sources [first, first + count) for panel p, `step` floats apart: [source][row of the
// panel]. A vector's spare lanes are overwritten by what follows: the first vector of a row comes last.
static void transform_panel(const Winograd& w, int64_t p, int64_t first, int64_t count, float* to, int64_t step) {
    const Correlation& c = w.c;
    const int64_t rows = w.panels.size(p);
    float* point[POINTS];
    for (int64_t f = 0; f < POINTS; ++f) point[f] = to + point_position(f, c.transposed) * step;
    for (int64_t m = (rows - 1) / W * W; m >= 0; m -= W) {
        const float* from[W];
        for (int64_t l = 0; l < W; ++l)
            from[l] = c.weight_of(0, id_of(c.targets, w.panels.first(p) + least(m + l, rows - 1)));
        for (int64_t s = 0; s < count; ++s) {
            const int64_t at = w.weights_at(first + s);
            if (c.transposed) {
                const float* next = from[0] + w.weights_at(least(first + s + SOURCE_RUNS, w.sources - 1));
                for (int64_t l = 0; l < 9 * rows; l += LINE) __builtin_prefetch(next + l);
            }
            vf taps[12], turned[12], points[POINTS];
            load_columns(from, at, taps);
            load_columns(from, at + 4, taps + 4);
            load_columns(from, at + 5, taps + 8);
            taps[8] = taps[11];
            EFL_UNROLL
            for (int q = 0; q < 3; ++q) weight_points(taps + q, 3, turned + q, 3);
            EFL_UNROLL
            for (int r = 0; r < 4; ++r) weight_points(turned + 3 * r, 1, points + 4 * r, 1);
            EFL_UNROLL
            for (int f = 0; f < POINTS; ++f) store(point[f] + s * rows + m, points[f]);
        }
    }
}

// Panels [first, first + count) of a group for pass k: [point][panel][source][row of the panel]. Weights are read in
// the order in which they lie in memory.
static void transform_weights(const Winograd& w, int64_t g, int64_t k, int64_t first, int64_t count, float* to) {
    const Parts runs(w.passes.size(k), w.c.transposed ? SOURCE_RUNS : w.passes.size(k));
    for (int64_t r = 0; r < runs.count; ++r)
        for (int64_t p = first; p < first + count; ++p)
            transform_panel(w, w.groups.first(g) + p, w.passes.first(k) + runs.first(r), runs.size(r),
                            to + w.weights_of(g, p) + runs.first(r) * w.panels.size(w.groups.first(g) + p),
                            w.weights_step(g));
}

// Adds the products of a group's targets with a chunk's tiles over the sources of pass k: results [point][target of the
// group][tile].
static void multiply_points(const Winograd& w, int64_t g, int64_t k, int64_t vectors, const float* weights,
                            const float* tiles, float* results) {
    const Parts terms(w.passes.size(k), MAX_TERMS), runs(vectors, w.run());
    const int64_t first = w.groups.first(g), base = w.targets_before(first), step = w.weights_step(g);
    for (int64_t f = 0; f < POINTS; ++f)
        for (int64_t t = 0; t < terms.count; ++t)
            for (int64_t v = 0; v < runs.count; ++v)
                for (int64_t p = 0; p < w.groups.size(g); ++p) {
                    const int64_t rows = w.panels.size(first + p), s = terms.first(t);
                    const Product product{
                        .a = weights + f * step + w.weights_of(g, p) + s * rows,
                        .b = tiles + f * w.tiles_step() + (w.passes.first(k) + s) * w.source_step(),
                        .off = w.off,
                        .terms = terms.size(t),
                        .start = k || t ? nullptr : w.zeros,
                        .c = results + f * w.results_step(g),
                        .row = w.row + w.panels.first(first + p) - base,
                        .vectors = w.vector + runs.first(v),
                    };
                    outer_product(product, rows, runs.size(v));
                }
}

static void write_row_results(const Winograd& w, int64_t g, int64_t chunk, const float* results) {
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

// `count` cells of each image of a vector, images last, to `to` + image * step.
static void part_images(const float* cells, int64_t count, int64_t images, float* to, int64_t step) {
    for (int64_t i = 0; i < count; i += W) {
        const float* from[W];
        for (int64_t m = 0; m < W; ++m) from[m] = cells + least(i + m, count - 1) * W;
        for (int64_t l = 0; l < images; l += 4) {
            vf planes[4];
            load_columns(from, l, planes);
            for (int64_t k = 0; k < least(4, images - l); ++k)
                store_n(to + (l + k) * step + i, planes[k], int(least(W, count - i)));
        }
    }
}

// Results of tiles whose lanes are images. Rows of the target follow one another, as nothing spreads them.
static void write_image_results(const Winograd& w, int64_t g, int64_t chunk, const float* results, float* cells) {
    const Correlation& c = w.c;
    const int64_t step = w.results_step(g), first = w.targets_before(w.groups.first(g)), tile_cols = w.tiling.cols / W,
                  height = c.planes.rows.count, width = c.planes.cols.count;
    for (int64_t m = 0; m < w.group_targets(g); ++m) {
        const int64_t id = id_of(c.targets, first + m);
        const vf bias = set1(c.bias ? c.bias[id] : 0);
        const float* from = results + m * w.pitch;
        w.tiling.each_strip(chunk, [&](const Strip& strip) {
            const int64_t top = 2 * strip.first, rows = least(2 * strip.rows, height - top);
            for (int64_t i = 0; i < strip.rows * tile_cols; ++i, from += W) {
                vf y[4];
                result_points(from, step, bias, y);
                for (int64_t k = 0; k < 4; ++k) {
                    const int64_t r = i / tile_cols * 2 + k / 2, q = i % tile_cols * 2 + k % 2;
                    if (r < rows && q < width) store(cells + (r * width + q) * W, y[k]);
                }
            }
            part_images(
                cells, rows * width, w.vectors.size(strip.image),
                c.target + (w.vectors.first(strip.image) * c.target_channels + id) * c.target_plane + top * width,
                c.target_channels * c.target_plane);
        });
    }
}

static void write_results(const Winograd& w, int64_t g, int64_t chunk, const float* results, float* plane) {
    return w.by_images ? write_image_results(w, g, chunk, results, plane) : write_row_results(w, g, chunk, results);
}

// Chunks of tiles pass by all weights.
static void pass_tiles(const Winograd& w, int64_t blocks, int64_t crew, int64_t macs) {
    const Parts parts = Parts::into(w.tiling.chunks.count, blocks),
                turns = Parts::into(w.panels.count, blocks_of(w.panels.count, WEIGHT_COST * w.sources * w.targets));
    each_block(turns.count, WEIGHT_COST * w.sources * w.targets,
               [&](int64_t i) { transform_weights(w, 0, 0, turns.first(i), turns.size(i), w.weights); });
    each_block(parts.count, macs, crew, [&](int64_t b, int64_t thread) {
        float *tiles = w.tiles + thread * w.tiles_size(), *results = w.results + thread * w.results_size(),
              *plane = w.plane + thread * w.plane_size();
        for (int64_t i = parts.first(b); i < parts.first(b) + parts.size(b); ++i) {
            fill_tiles(w, 0, w.sources, i, plane, tiles);
            multiply_points(w, 0, 0, (w.tiling.tiles(i) + W - 1) / W, w.weights, tiles, results);
            write_results(w, 0, i, results, plane);
        }
    });
}

// Groups of targets pass by a chunk of tiles, chunk after chunk.
static void pass_weights(const Winograd& w, int64_t blocks, int64_t crew, int64_t macs) {
    const Parts parts = Parts::into(w.groups.count, blocks), fills = Parts::into(w.sources, least(w.sources, blocks));
    const auto kept = [&](int64_t g, int64_t k) { return w.weights + (g * w.passes.count + k) * w.weights_size(); };
    if (w.kept)
        each_block(parts.count, macs, crew, [&](int64_t b, int64_t) {
            for (int64_t g = parts.first(b); g < parts.first(b) + parts.size(b); ++g)
                for (int64_t k = 0; k < w.passes.count; ++k)
                    transform_weights(w, g, k, 0, w.groups.size(g), kept(g, k));
        });
    for (int64_t i = 0; i < w.tiling.chunks.count; ++i) {
        each_block(fills.count, macs, crew, [&](int64_t b, int64_t thread) {
            fill_tiles(w, fills.first(b), fills.first(b) + fills.size(b), i, w.plane + thread * w.plane_size(),
                       w.tiles);
        });
        each_block(parts.count, macs, crew, [&](int64_t b, int64_t thread) {
            float *results = w.results + thread * w.results_size(), *plane = w.plane + thread * w.plane_size();
            for (int64_t g = parts.first(b); g < parts.first(b) + parts.size(b); ++g) {
                for (int64_t k = 0; k < w.passes.count; ++k) {
                    float* weights = w.kept ? kept(g, k) : w.weights + thread * w.weights_size();
                    if (!w.kept) transform_weights(w, g, k, 0, w.groups.size(g), weights);
                    multiply_points(w, g, k, (w.tiling.tiles(i) + W - 1) / W, weights, w.tiles, results);
                }
                write_results(w, g, i, results, plane);
            }
        });
    }
}

static efl_status correlate_tiles(const Correlation& c) {
    Winograd w(c);
    const int64_t macs = POINTS * w.sources * w.targets * w.tiling.rows * w.tiling.cols * c.batch;
    const int64_t blocks = blocks_of(w.whole ? w.tiling.chunks.count : w.groups.count, macs);
    const int64_t crew = threads_for(blocks);
    if (!place([&](Carve& carve) { w.lay_out(carve, crew); })) return EFL_NO_MEMORY;
    for (int64_t s = 0; s < w.sources; ++s) w.off[s] = s * w.source_step() * OFF_UNIT;
    for (int64_t m = 0; m < w.group_targets(0); ++m) w.row[m] = m * w.pitch;
    for (int64_t v = 0; v * W < w.tiling.most(); ++v) w.vector[v] = Vector{w.vector_at(v), v * W, W};
    zero_floats(w.zeros, MAX_ROWS);
    if (w.whole) pass_tiles(w, blocks, crew, macs);
    else pass_weights(w, blocks, crew, macs);
    return EFL_OK;
}
