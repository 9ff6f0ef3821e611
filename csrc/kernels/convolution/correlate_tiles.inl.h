// Correlation with 3x3 taps at stride 1 by Winograd's F(2x2, 3x3), 16 products for 4 positions instead of 36, or by
// F(4x4, 3x3), 36 products for 16 positions instead of 144.
//
// The map is cut into tiles of 2x2 or 4x4 positions, a few at a time. Their source cells are transformed to
// [point][source][tile], the weights to [point][panel of targets][source][target]; matrix products through the
// outer-product microkernel give [point][target][tile], from which the results follow. Either all weights are
// transformed first and chunks of tiles pass by, or, where the weights are many, the tiles are and groups of targets
// pass by. Rounding errors are up to about twice those of the plain sum, and a cell that is not finite spoils all
// results of its tiles.

// A panel's taps of one source.
static inline void load_taps(const float* const* from, int64_t at, vf* taps) {
    load_columns(from, at, taps);
    load_columns(from, at + 4, taps + 4);
    load_columns(from, at + 5, taps + 8);
    taps[8] = taps[11];
}

// The points of the taps of a panel's rows [m, m + W) for sources [first, first + count): of a source, `rows` floats
// from the next one's, `step` floats apart. Turned taps have the same points in another order: the outer ones are
// swapped.
static inline void tap_points(const Winograd<2>& w, const float* const* from, int64_t first, int64_t count,
                              int64_t rows, float* to, int64_t step) {
    const int64_t outer = w.c.transposed ? 3 : 0, other = 3 - outer;
    for (int64_t s = 0; s < count; ++s, to += rows) {
        w.fetch_taps(from[0], first + s, rows);
        vf taps[12], turned[12], points[4];
        load_taps(from, w.weights_at(first + s), taps);
        EFL_UNROLL
        for (int q = 0; q < 3; ++q) weight_points(taps + q, 3, turned + q, 3);
        EFL_UNROLL
        for (int r = 0; r < 4; ++r) {
            float* row = to + 4 * (r == 0 ? outer : r == 3 ? other : r) * step;
            weight_points(turned + 3 * r, 1, points, 1);
            store(row + outer * step, points[0]), store(row + other * step, points[3]);
            store(row + step, points[1]), store(row + 2 * step, points[2]);
        }
    }
}

// The same of 36 points, which lie on as many pages: those of a few sources go to one page before the next.
static inline void tap_points(const Winograd<4>& w, const float* const* from, int64_t first, int64_t count,
                              int64_t rows, float* to, int64_t step) {
    constexpr int64_t FEW = 8;
    const int by = w.c.transposed ? -1 : 1;  // turned taps are met in reverse
    for (int64_t s = 0; s < count; s += FEW, to += FEW * rows) {
        const int64_t few = least(FEW, count - s);
        vf turned[FEW][3 * FOUR_SPAN];
        for (int64_t k = 0; k < few; ++k) {
            w.fetch_taps(from[0], first + s + k, rows);
            vf taps[12];
            load_taps(from, w.weights_at(first + s + k), taps);
            const vf* start = w.c.transposed ? taps + 8 : taps;
            EFL_UNROLL
            for (int q = 0; q < 3; ++q) four_weights(start + by * q, 3 * by, turned[k] + q, 3);
        }
        for (int64_t r = 0; r < FOUR_SPAN; ++r)
            for (int64_t k = 0; k < few; ++k) {
                vf points[FOUR_SPAN];
                four_weights(turned[k] + 3 * r, 1, points, 1);
                float* row = to + k * rows + FOUR_SPAN * r * step;
                EFL_UNROLL
                for (int f = 0; f < FOUR_SPAN; ++f) store(row + f * step, points[f]);
            }
    }
}

// The points of the weights of sources [first, first + count) for panel p, `step` floats apart: [source][row of the
// panel]. A vector's spare lanes are overwritten by what follows: the first vector of a row comes last.
template <int EDGE>
static void transform_panel(const Winograd<EDGE>& w, int64_t p, int64_t first, int64_t count, float* to, int64_t step) {
    const Correlation& c = w.c;
    const int64_t rows = w.panels.size(p);
    for (int64_t m = (rows - 1) / W * W; m >= 0; m -= W) {
        const float* from[W];
        for (int64_t l = 0; l < W; ++l)
            from[l] = c.weight_of(0, id_of(c.targets, w.panels.first(p) + least(m + l, rows - 1)));
        tap_points(w, from, first, count, rows, to + m, step);
    }
}

// Panels [first, first + count) of a group for pass k: [point][panel][source][row of the panel]. Weights are read in
// the order in which they lie in memory.
template <int EDGE>
static void transform_weights(const Winograd<EDGE>& w, int64_t g, int64_t k, int64_t first, int64_t count, float* to) {
    const Parts runs(w.passes.size(k), w.c.transposed ? SOURCE_RUNS : w.passes.size(k));
    for (int64_t r = 0; r < runs.count; ++r)
        for (int64_t p = first; p < first + count; ++p)
            transform_panel(w, w.groups.first(g) + p, w.passes.first(k) + runs.first(r), runs.size(r),
                            to + w.weights_of(g, p) + runs.first(r) * w.panels.size(w.groups.first(g) + p),
                            w.weights_step(g));
}

// Adds the products of a group's targets with a chunk's tiles over the sources of pass k: results [point][target of the
// group][tile].
template <int EDGE>
static void multiply_points(const Winograd<EDGE>& w, int64_t g, int64_t k, int64_t vectors, const float* weights,
                            const float* tiles, float* results) {
    const Parts terms(w.passes.size(k), MAX_TERMS), runs(vectors, w.run());
    const int64_t first = w.groups.first(g), base = w.targets_before(first), step = w.weights_step(g);
    for (int64_t f = 0; f < w.POINTS; ++f)
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

static void write_row_results(const Winograd<2>& w, int64_t g, int64_t chunk, const float* results) {
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

// The results of a strip's tiles of one target: [row][column][image], of which `rows` and `cols` are in the map.
static inline void strip_results(const Winograd<2>& w, int64_t tiles, const float* from, int64_t step, vf bias,
                                 int64_t rows, int64_t cols, float* cells, float*) {
    const int64_t tile_cols = w.tiling.cols / W;
    for (int64_t i = 0; i < tiles; ++i, from += W) {
        vf y[4];
        result_points(from, step, bias, y);
        for (int64_t k = 0; k < 4; ++k) {
            const int64_t r = i / tile_cols * 2 + k / 2, q = i % tile_cols * 2 + k % 2;
            if (r < rows && q < cols) store(cells + (r * cols + q) * W, y[k]);
        }
    }
}
static inline void strip_results(const Winograd<4>& w, int64_t tiles, const float* from, int64_t step, vf bias,
                                 int64_t rows, int64_t cols, float* cells, float* lines) {
    constexpr int64_t LINE_FLOATS = 4 * FOUR_SPAN * W;
    const int64_t tile_cols = w.tiling.cols / W;
    for (int64_t q = 0; q < FOUR_SPAN; ++q)
        for (int64_t i = 0; i < tiles; ++i) {
            vf u[FOUR_SPAN], half[4];
            EFL_UNROLL
            for (int f = 0; f < FOUR_SPAN; ++f) u[f] = load(from + (FOUR_SPAN * f + q) * step + i * W);
            four_results(u, 1, half, 1);
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) store(lines + i * LINE_FLOATS + (FOUR_SPAN * k + q) * W, half[k]);
        }
    for (int64_t i = 0; i < tiles; ++i)
        for (int64_t k = 0; k < 4; ++k, lines += FOUR_SPAN * W) {
            vf u[FOUR_SPAN], y[4];
            EFL_UNROLL
            for (int f = 0; f < FOUR_SPAN; ++f) u[f] = load(lines + f * W);
            four_results(u, 1, y, 1);
            const int64_t r = i / tile_cols * 4 + k, q = i % tile_cols * 4;
            if (r >= rows) continue;
            float* to = cells + (r * cols + q) * W;
            EFL_UNROLL
            for (int f = 0; f < 4; ++f)
                if (q + f < cols) store(to + f * W, add(y[f], bias));
        }
}

// Results of tiles whose lanes are images. Rows of the target follow one another, as nothing spreads them.
template <int EDGE>
static void write_image_results(const Winograd<EDGE>& w, int64_t g, int64_t chunk, const float* results, float* cells) {
    const Correlation& c = w.c;
    const int64_t step = w.results_step(g), first = w.targets_before(w.groups.first(g)), tile_cols = w.tiling.cols / W,
                  height = c.planes.rows.count, width = c.planes.cols.count;
    for (int64_t m = 0; m < w.group_targets(g); ++m) {
        const int64_t id = id_of(c.targets, first + m);
        const vf bias = set1(c.bias ? c.bias[id] : 0);
        const float* from = results + m * w.pitch;
        w.tiling.each_strip(chunk, [&](const Strip& strip) {
            const int64_t top = EDGE * strip.first, rows = least(EDGE * strip.rows, height - top);
            strip_results(w, strip.rows * tile_cols, from, step, bias, rows, width, cells, cells + w.cells_size());
            from += strip.rows * tile_cols * W;
            part_images(
                cells, rows * width, w.vectors.size(strip.image),
                c.target + (w.vectors.first(strip.image) * c.target_channels + id) * c.target_plane + top * width,
                c.target_channels * c.target_plane);
        });
    }
}

template <int EDGE>
static void write_results(const Winograd<EDGE>& w, int64_t g, int64_t chunk, const float* results, float* plane) {
    if constexpr (EDGE == 2)
        if (!w.by_images) return write_row_results(w, g, chunk, results);
    write_image_results(w, g, chunk, results, plane);
}

// Chunks of tiles pass by all weights.
template <int EDGE>
static void pass_tiles(const Winograd<EDGE>& w, int64_t blocks, int64_t crew, int64_t macs) {
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
template <int EDGE>
static void pass_weights(const Winograd<EDGE>& w, int64_t blocks, int64_t crew, int64_t macs) {
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

template <int EDGE>
static efl_status correlate_tiles(const Correlation& c) {
    Winograd<EDGE> w(c);
    const int64_t macs = w.POINTS * w.sources * w.targets * w.tiling.rows * w.tiling.cols * c.batch;
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
