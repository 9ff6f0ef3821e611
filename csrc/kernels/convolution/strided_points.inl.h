// The points of a 3x3 correlation at stride 2, and of its transposed, the input gradient: 25 products where 36 would be
// summed. How data and weights are cut into tiles and transformed; the products are in correlate_strided.
//
// Along an axis two results meet five cells x, and the cell between the results' other two is met by both:
//
//     y0 = (x0 - x2) w0 + x1 w1 + x2 (w0 + w2)      y1 = x2 (w0 + w2) + x3 w1 + (x4 - x2) w2
//
// five products instead of six. Transposed, four results meet three cells g:
//
//     h0 = g0 w1    h1 = (g0 - g1) w2 + g1 (w0 + w2)    h2 = g1 w1    h3 = g1 (w0 + w2) + (g2 - g1) w0
//
// Both axes together give tiles with 5x5 products of a point of the data and one of the weights. Lanes are tiles of a
// row or two, or images. Source: Karatsuba's way of multiplying two-term polynomials, as Winograd's F(2, 2), for the
// taps that share a phase.

constexpr int64_t STRIDED_WHOLE = 1 << 19;  // floats: up to here all weights are transformed before the tiles pass by
constexpr int64_t STRIDED_TILES = 1 << 17;  // floats of transformed data at a time
constexpr int64_t FEWEST_TILES = 32;        // of a chunk, beside whole weights; with fewer, weights are read too often
constexpr int64_t FEWEST_TILES_APART = 64;  // the same where the weights are transformed for each chunk

// One product along an axis: the points that it multiplies and adds to; fresh: nothing was added there before.
struct AxisProduct {
    int data, weight, result;
    bool fresh;
};
constexpr int AXIS_PRODUCTS = 5, WEIGHT_POINTS = 4;  // weights: w0, w1, w2, w0 + w2

// 2 W floats of a and b in turns: the lower or the upper W of them.
template <bool UPPER>
static inline vf zip_half(vf a, vf b) {
    return UPPER ? zip_high(a, b) : zip_low(a, b);
}

struct StridedForward {
    static constexpr int step = 4, reach = 5, span = 2;  // cells from tile to tile, cells of a tile, its results
    static constexpr int data = 5, results = 3;          // points
    static constexpr int64_t balance = 16;               // products per channel and tile that the transforms cost
    static constexpr AxisProduct products[] = {
        {0, 0, 0, true}, {1, 1, 0, false}, {2, 3, 1, true}, {3, 1, 2, true}, {4, 2, 2, false}};

    static Axis cells(int64_t source, int64_t tiles, int64_t origin) {
        return forward_axis(source, 2 * tiles, 3, 2, -origin, 1);
    }
    // Loads the cells of a vector of tiles in a row of planes whose odd columns are `apart` from the even ones; the
    // cells of the vector's upper half start `half` further on.
    static inline void load_cells(const float* even, int64_t apart, int64_t half, vf* x) {
        const float* odd = even + apart;
        const vf a = load(even), b = load(even + half), c = load(odd), d = load(odd + half);
        x[0] = evens(a, b), x[1] = evens(c, d), x[2] = odds(a, b), x[3] = odds(c, d);
        x[4] = evens(load(even + 2), load(even + 2 + half));
    }
    static inline void data_points(const vf* x, int from, vf* to, int by) {
        to[0] = sub(x[0], x[2 * from]), to[by] = x[from], to[2 * by] = x[2 * from], to[3 * by] = x[3 * from];
        to[4 * by] = sub(x[4 * from], x[2 * from]);
    }
    static inline void results_of(const vf* r, int from, vf* to, int by) {
        to[0] = add(r[0], r[from]), to[by] = add(r[from], r[2 * from]);
    }
    // The results of a vector's lower or upper half of tiles.
    template <bool UPPER>
    static inline void store_half(float* to, const vf* y, int64_t count) {
        store_n(to, zip_half<UPPER>(y[0], y[1]), int(least(W, count)));
    }
};

struct StridedTransposed {
    static constexpr int step = 2, reach = 3, span = 4;
    static constexpr int data = 4, results = 5;
    static constexpr int64_t balance = 9;
    static constexpr AxisProduct products[] = {
        {3, 1, 0, true}, {0, 2, 1, true}, {1, 3, 2, true}, {1, 1, 3, true}, {2, 0, 4, true}};

    static Axis cells(int64_t source, int64_t tiles, int64_t origin) {
        return forward_axis(source, 2 * tiles, 2, 1, -origin, 1);
    }
    static inline void load_cells(const float* from, int64_t, int64_t half, vf* g) {
        const vf a = load(from), b = load(from + half);
        g[0] = evens(a, b), g[1] = odds(a, b), g[2] = evens(load(from + 2), load(from + 2 + half));
    }
    static inline void data_points(const vf* g, int from, vf* to, int by) {
        to[0] = sub(g[0], g[from]), to[by] = g[from], to[2 * by] = sub(g[2 * from], g[from]), to[3 * by] = g[0];
    }
    static inline void results_of(const vf* r, int from, vf* to, int by) {
        to[0] = r[0], to[by] = add(r[from], r[2 * from]), to[2 * by] = r[3 * from];
        to[3 * by] = add(r[2 * from], r[4 * from]);
    }
    template <bool UPPER>
    static inline void store_half(float* to, const vf* y, int64_t count) {
        store_zipped(to, zip_half<UPPER>(y[0], y[2]), zip_half<UPPER>(y[1], y[3]), least(2 * W, count));
    }
};

// An axis as tiles see it: tile t meets the cells from origin + t * step on.
struct TileAxis {
    int64_t source, count, origin;
};

template <class Way>
struct Strided {
    const Correlation& c;  // of its planes nothing is used but the kernel's size
    TileAxis rows, cols;
    int64_t sources, targets;
    bool whole;      // all weights are transformed beforehand
    Parts vectors;   // of images
    bool by_images;  // lanes are images, not tiles of a row
    Tiling tiling;   // by_images: of vectors of images, whose tiles are side by side
    Parts panels, groups,
        passes;     // targets in panels; panels in groups; sources whose weights are transformed at a time
    int64_t pitch;  // floats from one channel's tiles to the next: an odd number of cache lines
    int64_t *off, *row;
    Vector* vector;
    float *zeros, *weights, *tiles, *results, *planes;

    Strided(const Correlation& c_, const TileAxis& rows_, const TileAxis& cols_)
        : c(c_), rows(rows_), cols(cols_), sources(count_of(c.sources, c.source_channels)),
          targets(count_of(c.targets, c.target_channels)),
          whole(WEIGHT_POINTS * WEIGHT_POINTS * sources * targets <= STRIDED_WHOLE), vectors(c.batch, W),
          by_images(tiles_of(cols) <= 2 && 8 * vectors.count * W <= 9 * c.batch),
          tiling(by_images ? vectors.count : c.batch, tiles_of(rows) * 2, tiles_of(cols) * 2, by_images ? W : 1,
                 fitting()),
          panels(targets, MAX_ROWS), groups(panels.count, GROUP_PANELS),
          passes(sources, whole ? sources : PASS_SOURCES), pitch(((tiling.most() + W + LINE - 1) / LINE | 1) * LINE) {}

    static int64_t tiles_of(const TileAxis& axis) { return (axis.count + Way::span - 1) / Way::span; }
    int64_t fitting() const {
        const int64_t fit = STRIDED_TILES / (Way::data * Way::data * sources);
        const int64_t fewest = whole ? FEWEST_TILES : FEWEST_TILES_APART;
        return fit < fewest ? fewest : fit;
    }
    int64_t targets_before(int64_t panel) const { return panel < panels.count ? panels.first(panel) : targets; }
    int64_t first_target(int64_t g) const { return targets_before(groups.first(g)); }
    int64_t group_targets(int64_t g) const {
        return targets_before(groups.first(g) + groups.size(g)) - first_target(g);
    }
    // Where panel k of a group starts; a cache line apart, as a vector's spare lanes are written while others are
    // filled.
    int64_t weights_of(int64_t g, int64_t k) const {
        return (targets_before(groups.first(g) + k) - first_target(g)) * passes.size(0) + k * LINE;
    }
    // Floats from point to point; a cache line more than the data, so that the points of a position lie in different
    // cache sets.
    int64_t weights_step() const { return weights_of(0, groups.size(0)) + LINE; }
    int64_t weights_size() const { return WEIGHT_POINTS * WEIGHT_POINTS * weights_step(); }
    int64_t tiles_step() const { return sources * pitch + LINE; }
    int64_t results_step() const { return group_targets(0) * pitch + LINE; }
    int64_t results_size() const { return Way::results * Way::results * results_step() + W; }
    // The padded planes of a channel under a strip.
    Planes planes_of(const Strip& strip) const {
        return Planes(Way::cells(rows.source, strip.rows, rows.origin + Way::step * strip.first),
                      Way::cells(cols.source, tiles_of(cols), cols.origin));
    }
    // Columns of cells under the tiles of a row.
    int64_t cells_width() const { return Way::step * (tiling.cols / W) + Way::reach - Way::step; }
    // Two rows of tiles fill a vector.
    bool paired() const { return 2 * tiling.cols == W; }
    int64_t planes_size() const {
        const int64_t height = Way::step * (tiling.strips.size(0) + 1) + Way::reach,
                      width = by_images ? cells_width() * W : 2 * (Way::step * tiling.cols + Way::reach);
        const int64_t out = by_images ? Way::span * Way::span * tiling.strips.size(0) * tiling.cols : 0;
        return (height * width > out ? height * width : out) + 4 * W;
    }
    // Vectors of tiles that stay in L1 for all their sources.
    int64_t run() const {
        const int64_t fit = RUN_TILES / (least(passes.size(0), MAX_TERMS) * W);
        return fit < 2 ? 2 : fit;
    }

    void lay_out(Carve& carve, int64_t blocks) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(group_targets(0));
        vector = carve.take<Vector>((tiling.most() + W - 1) / W);
        zeros = carve.take<float>(MAX_ROWS);
        weights = carve.take<float>((whole ? groups.count : blocks) * weights_size());
        tiles = carve.take<float>(Way::data * Way::data * tiles_step());
        results = carve.take<float>(blocks * results_size());
        planes = carve.take<float>(blocks * planes_size());
    }
};

// `step` floats apart, the points of a vector of tiles of which load(i, cells) loads row i.
template <class Way, class Load>
static inline void transform_cells(float* to, int64_t step, const Load& load_row) {
    constexpr int N = Way::reach, P = Way::data;
    vf half[N][P];
    EFL_UNROLL
    for (int i = 0; i < N; ++i) {
        vf cells[N];
        load_row(i, cells);
        Way::data_points(cells, 1, half[i], 1);
    }
    EFL_UNROLL
    for (int j = 0; j < P; ++j) {
        vf points[P];
        Way::data_points(&half[0][j], P, points, 1);
        EFL_UNROLL
        for (int i = 0; i < P; ++i) store(to + (i * P + j) * step, points[i]);
    }
}

// The points of a plane's tiles, `rows` by `width`: [point][tile]. Vectors of a row overlap where they would not fit; a
// row shorter than a vector runs into the next, which comes later; two that fill one are taken together. Up to W floats
// past the last row are overwritten.
template <class Way>
static void transform_planes(const Planes& planes, const float* plane, int64_t rows, int64_t width, float* to,
                             int64_t step) {
    const int64_t pitch = planes.pitch, apart = planes.height * pitch, together = 2 * width == W ? 2 : 1,
                  half = together == 2 ? Way::step * pitch : W;  // from a vector's lower tiles to its upper ones
    for (int64_t q = 0; q < width; q += W) {
        const int64_t first = width < W ? 0 : least(q, width - W);
        for (int64_t r = 0; r < rows; r += together) {
            const float* from = plane + 2 * first + r * Way::step * pitch;
            transform_cells<Way>(to + r * width + first, step,
                                 [&](int i, vf* cells) { Way::load_cells(from + i * pitch, apart, half, cells); });
        }
    }
}

// Asks for a plane that is read next: planes of few rows end before a processor sees where they lead.
static inline void prefetch_plane(const float* plane, int64_t size) {
    for (int64_t l = 0; l < size; l += LINE) __builtin_prefetch(plane + l);
}

// The points of sources [first, last) in a chunk: [point][source][tile].
template <class Way>
static void fill_row_points(const Strided<Way>& s, int64_t chunk, int64_t first, int64_t last, float* plane) {
    const int64_t source_plane = s.rows.source * s.cols.source;
    float* to = s.tiles;
    for (int64_t k = first; k < last; ++k)
        clear_spare_tiles(to + k * s.pitch, s.tiling.tiles(chunk), Way::data * Way::data, s.tiles_step());
    s.tiling.each_strip(chunk, [&](const Strip& strip) {
        const Planes planes = s.planes_of(strip);
        const float* image = s.c.source + strip.image * s.c.source_channels * source_plane;
        CellBlock block[2];
        const CellCopies cells = planes.copies(block);
        zero_floats(plane, s.planes_size());
        for (int64_t k = first; k < last; ++k) {
            prefetch_plane(image + id_of(s.c.sources, least(k + 1, last - 1)) * source_plane, source_plane);
            cells.fill(image + id_of(s.c.sources, k) * source_plane, plane);
            transform_planes<Way>(planes, plane, strip.rows, s.tiling.cols, to + k * s.pitch, s.tiles_step());
        }
        to += strip.rows * s.tiling.cols;
    });
}

// The cells of a source under a strip, images last, in a frame of zeros: [row][column][image].
template <class Way>
static void fill_cells(const Strided<Way>& s, const Strip& strip, int64_t source, float* cells) {
    const int64_t width = s.cells_width(), height = Way::step * strip.rows + Way::reach - Way::step,
                  plane = s.rows.source * s.cols.source, top = s.rows.origin + Way::step * strip.first,
                  begin = s.cols.origin < 0 ? -s.cols.origin : 0, end = least(width, s.cols.source - s.cols.origin);
    const float* image[W];
    for (int64_t l = 0; l < W; ++l)
        image[l] = s.c.source + s.cols.origin + begin +
                   ((s.vectors.first(strip.image) + least(l, s.vectors.size(strip.image) - 1)) * s.c.source_channels +
                    source) *
                       plane;
    zero_floats(cells, height * width * W);
    for (int64_t r = top < 0 ? -top : 0; r < least(height, s.rows.source - top); ++r) {
        const float* from[W];
        for (int64_t l = 0; l < W; ++l) from[l] = image[l] + (top + r) * s.cols.source;
        interleave(from, W, end - begin, cells + (r * width + begin) * W, W);
    }
}

// Computes the points of tiles of which each is a vector of images.
template <class Way>
static void fill_image_points(const Strided<Way>& s, int64_t chunk, int64_t first, int64_t last, float* cells) {
    const int64_t tile_cols = s.tiling.cols / W, width = s.cells_width();
    float* tiles = s.tiles;
    s.tiling.each_strip(chunk, [&](const Strip& strip) {
        for (int64_t k = first; k < last; ++k) {
            fill_cells(s, strip, id_of(s.c.sources, k), cells);
            float* to = tiles + k * s.pitch;
            for (int64_t i = 0; i < strip.rows * tile_cols; ++i, to += W) {
                const float* from = cells + (i / tile_cols * width + i % tile_cols) * Way::step * W;
                transform_cells<Way>(to, s.tiles_step(), [&](int row, vf* x) {
                    EFL_UNROLL
                    for (int col = 0; col < Way::reach; ++col) x[col] = load(from + (row * width + col) * W);
                });
            }
        }
        tiles += strip.rows * s.tiling.cols;
    });
}

template <class Way>
static void fill_points(const Strided<Way>& s, int64_t chunk, int64_t first, int64_t last, float* plane) {
    return s.by_images ? fill_image_points(s, chunk, first, last, plane)
                       : fill_row_points(s, chunk, first, last, plane);
}

static inline void strided_weight_points(const vf* taps, int64_t from, vf* to, int64_t by) {
    to[0] = taps[0], to[by] = taps[from], to[2 * by] = taps[2 * from], to[3 * by] = add(taps[0], taps[2 * from]);
}

// The points of the weights of sources [first, first + count) for panel p: [source][row of the panel]. A vector's spare
// lanes are overwritten by what follows: the first vector of a row comes last.
template <class Way>
static void transform_panel(const Strided<Way>& s, int64_t p, int64_t first, int64_t count, float* to) {
    const Correlation& c = s.c;
    const int64_t rows = s.panels.size(p), step = s.weights_step();
    for (int64_t m = (rows - 1) / W * W; m >= 0; m -= W) {
        const float* from[W];
        for (int64_t l = 0; l < W; ++l)
            from[l] = c.weight_of(0, id_of(c.targets, s.panels.first(p) + least(m + l, rows - 1)));
        for (int64_t k = 0; k < count; ++k) {
            const int64_t at = c.weight_of(id_of(c.sources, first + k), 0) - c.weight;
            vf taps[12], half[12], points[16];
            load_columns(from, at, taps);
            load_columns(from, at + 4, taps + 4);
            load_columns(from, at + 5, taps + 8);
            taps[8] = taps[11];
            EFL_UNROLL
            for (int q = 0; q < 3; ++q) strided_weight_points(taps + q, 3, half + q, 3);
            EFL_UNROLL
            for (int r = 0; r < WEIGHT_POINTS; ++r)
                strided_weight_points(half + 3 * r, 1, points + WEIGHT_POINTS * r, 1);
            EFL_UNROLL
            for (int f = 0; f < WEIGHT_POINTS * WEIGHT_POINTS; ++f) store(to + f * step + k * rows + m, points[f]);
        }
    }
}

// Panels of a group for pass k: [point][panel][source][row of the panel]. Weights are read in the order in which they
// lie in memory.
template <class Way>
static void transform_weights(const Strided<Way>& s, int64_t g, int64_t k, float* to) {
    const Parts runs(s.passes.size(k), s.c.transposed ? SOURCE_RUNS : s.passes.size(k));
    for (int64_t r = 0; r < runs.count; ++r)
        for (int64_t p = 0; p < s.groups.size(g); ++p)
            transform_panel(s, s.groups.first(g) + p, s.passes.first(k) + runs.first(r), runs.size(r),
                            to + s.weights_of(g, p) + runs.first(r) * s.panels.size(s.groups.first(g) + p));
}
