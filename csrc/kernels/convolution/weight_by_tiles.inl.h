// Weight gradient of a 3x3 convolution at stride 1 by Winograd's F(2x2, 3x3) transposed, 16 products per tile, not 36,
// or by F(4x4, 3x3) transposed, 36 products, not 144.
//
//     dg = G^T (sum over tiles of (A dY A^T) * (B^T d B)) G
//
// Lanes are channels: x and dy are turned to channels-last strip by strip and transformed to [point][panel of
// inputs][tile][input] and [point][panel of outputs][tile][output]; the outer-product microkernel sums over the tiles
// of a chunk. Groups of outputs are independent. With one chunk a group's sums are dropped as soon as its weights are
// written.

constexpr int64_t GRADIENT_TILES = 1 << 20;  // floats of transformed x and dy at a time
constexpr int64_t NEAR_TILES = 1 << 18;      // those that stay about a second cache
constexpr int64_t ENOUGH_TILES = 128;        // of a chunk, with which its sums are read and written seldom enough
constexpr int64_t INPUT_PANEL = 2 * W;

// Tiles of 4x4 positions of a chunk: half as many of few channels, with which they take no more memory than tiles of
// 2x2 positions. Floats of them and of their sums, at most.
constexpr int64_t CHUNK_FOURS = 64, FEW_CHANNELS = 128, FOURS_MEMORY = 1 << 21;

template <int EDGE>
static int64_t tiles_of_chunk(int64_t channels) {
    if (EDGE > 2) return channels > FEW_CHANNELS ? CHUNK_FOURS : CHUNK_FOURS / 2;
    const int64_t most = GRADIENT_TILES / (POINTS * channels), near = NEAR_TILES / (POINTS * channels);
    return least(most, near > ENOUGH_TILES ? near : ENOUGH_TILES);
}

template <int EDGE>
struct GradientPlan {
    static constexpr int64_t SPAN = EDGE + 2, POINTS = SPAN * SPAN;
    const WeightGradient& w;
    int64_t outs, ins;
    Tiling tiling;
    Parts panels, groups;  // outputs in panels; panels in groups
    int64_t most;          // tiles of a chunk
    int64_t *off, *row;
    float *zeros, *x, *dy, *sums, *pixels;

    explicit GradientPlan(const WeightGradient& w_)
        : w(w_), outs(count_of(w.outs, w.conv.out_channels)), ins(w.ins_per_group()),
          tiling(w.conv.batch, w.geometry.out_h, w.geometry.out_w, 1, tiles_of_chunk<EDGE>(outs + ins), EDGE),
          panels(outs, MAX_ROWS), groups(Parts::shared(panels.count, GROUP_PANELS)), most(tiling.most()) {}

    int64_t input_panels() const { return (ins + INPUT_PANEL - 1) / INPUT_PANEL; }
    int64_t lanes(int64_t c) const { return (least(INPUT_PANEL, ins - c * INPUT_PANEL) + W - 1) / W * W; }
    int64_t outs_before(int64_t panel) const { return panel < panels.count ? panels.first(panel) : outs; }
    int64_t group_outs(int64_t g) const {
        return outs_before(groups.first(g) + groups.size(g)) - outs_before(groups.first(g));
    }

    // Where panel p of dy starts; a cache line apart, as the spare lanes of its last vector are written while others
    // are filled.
    int64_t dy_panel(int64_t p) const { return outs_before(p) * most + p * LINE; }
    // Floats from point to point; a cache line more than the data, as in Winograd.
    int64_t x_step() const { return input_panels() * INPUT_PANEL * most + LINE; }
    int64_t dy_step() const { return dy_panel(panels.count) + LINE; }
    int64_t pitch() const { return input_panels() * INPUT_PANEL; }
    int64_t sums_step() const { return group_outs(0) * pitch() + LINE; }
    int64_t strip_width() const { return EDGE * tiling.cols + 2; }
    int64_t pixels_size() const {
        return (EDGE * tiling.strips.size(0) + 2) * strip_width() * INPUT_PANEL + lines_size();
    }
    // Of the points along rows of a row of tiles of 4x4 positions.
    int64_t lines_size() const { return EDGE > 2 ? SPAN * SPAN * tiling.cols * W : 0; }

    void lay_out(Carve& carve, int64_t slots, int64_t crew) {
        off = carve.take<int64_t>(most);
        row = carve.take<int64_t>(group_outs(0));
        zeros = carve.take<float>(MAX_ROWS);
        x = carve.take<float>(POINTS * x_step());
        dy = carve.take<float>(POINTS * dy_step());
        sums = carve.take<float>(slots * POINTS * sums_step());
        pixels = carve.take<float>(crew * pixels_size());
    }
};

// Rows of x under a strip, channels of panel c last, in a frame of zeros.
template <int EDGE>
static void fill_pixels(const GradientPlan<EDGE>& plan, int64_t c, const Strip& strip, float* pixels) {
    const WeightGradient& w = plan.w;
    const Axis &rows = w.planes.rows, &cols = w.planes.cols;
    const int64_t height = EDGE * strip.rows + 2, width = plan.strip_width(),
                  count = least(INPUT_PANEL, plan.ins - c * INPUT_PANEL);
    const int64_t top = rows.origin + EDGE * strip.first, right = least(width, cols.source - cols.origin);
    zero_floats(pixels, height * width * INPUT_PANEL);
    for (int64_t r = top < 0 ? -top : 0; r < least(height, rows.source - top); ++r)
        for (int64_t k = 0; k < count; k += W) {
            const float* from[W];
            for (int64_t l = 0; l < least(W, count - k); ++l)
                from[l] = w.x_plane(strip.image, c * INPUT_PANEL + k + l) + (top + r) * cols.source;
            interleave(from, least(W, count - k), right + cols.origin,
                       pixels + (r * width - cols.origin) * INPUT_PANEL + k, INPUT_PANEL);
        }
}

// The points of a row of tiles of x, whose cells begin at `from`: each a panel of channels wide.
static inline void input_row(const GradientPlan<2>& plan, const float* from, int64_t lanes, float*, float* to) {
    const int64_t width = plan.strip_width();
    for (int64_t q = 0; q < plan.tiling.cols; ++q, from += 2 * INPUT_PANEL, to += INPUT_PANEL)
        for (int64_t k = 0; k < lanes; k += W) {
            vf d[POINTS];
            EFL_UNROLL
            for (int i = 0; i < POINTS; ++i) d[i] = load(from + (i / 4 * width + i % 4) * INPUT_PANEL + k);
            EFL_UNROLL
            for (int i = 0; i < 4; ++i) input_points(d + 4 * i, 1);
            EFL_UNROLL
            for (int i = 0; i < 4; ++i) input_points(d + i, 4);
            EFL_UNROLL
            for (int f = 0; f < POINTS; ++f) store(to + f * plan.x_step() + k, d[f]);
        }
}

// The same of 36 points, which lie on as many pages: those of the whole row go to one page before the next.
static inline void input_row(const GradientPlan<4>& plan, const float* from, int64_t lanes, float* lines, float* to) {
    const int64_t cols = plan.tiling.cols, step = plan.x_step(), pitch = FOUR_SPAN * cols * W;
    for (int64_t k = 0; k < lanes; k += W) {
        float* line = lines;
        for (int64_t r = 0; r < FOUR_SPAN; ++r) {
            const float* cell = from + r * plan.strip_width() * INPUT_PANEL + k;
            for (int64_t q = 0; q < cols; ++q, cell += 4 * INPUT_PANEL, line += FOUR_SPAN * W)
                put_inputs(cell, INPUT_PANEL, line, W);
        }
        for (int64_t p = 0; p < FOUR_SPAN; ++p)
            for (int64_t q = 0; q < cols; ++q)
                put_inputs(lines + (q * FOUR_SPAN + p) * W, pitch, to + p * step + q * INPUT_PANEL + k,
                           FOUR_SPAN * step);
    }
}

// Panel c of the transformed x of a chunk.
template <int EDGE>
static void transform_inputs(const GradientPlan<EDGE>& plan, int64_t c, int64_t chunk, float* pixels) {
    const int64_t lanes = plan.lanes(c), row = EDGE * plan.strip_width() * INPUT_PANEL;
    float *to = plan.x + c * INPUT_PANEL * plan.most, *lines = pixels + plan.pixels_size() - plan.lines_size();
    plan.tiling.each_strip(chunk, [&](const Strip& strip) {
        fill_pixels(plan, c, strip, pixels);
        for (int64_t r = 0; r < strip.rows; ++r, to += plan.tiling.cols * INPUT_PANEL)
            input_row(plan, pixels + r * row, lanes, lines, to);
    });
}

// Panel p of the transformed dy of a chunk; the plan may be that of larger kernels. A vector's spare lanes are
// overwritten by what follows.
template <class Plan>
static void transform_outputs(const Plan& plan, int64_t p, int64_t chunk, float* pixels) {
    const WeightGradient& w = plan.w;
    const int64_t size = plan.panels.size(p), height = w.geometry.out_h, width = w.geometry.out_w;
    float* to = plan.dy + plan.dy_panel(p);
    plan.tiling.each_strip(chunk, [&](const Strip& strip) {
        const int64_t top = 2 * strip.first, rows = least(2 * strip.rows, height - top);
        const float* from[MAX_ROWS];
        for (int64_t m = 0; m < size; ++m) from[m] = w.dy_plane(strip.image, plan.panels.first(p) + m) + top * width;
        interleave(from, size, rows * width, pixels, size);
        for (int64_t r = 0; r < 2 * strip.rows; r += 2)
            for (int64_t q = 0; q < width; q += 2, to += size)
                for (int64_t m = 0; m < size; m += W) {
                    const float* at = pixels + (r * width + q) * size + m;
                    const bool below = r + 1 < rows, beside = q + 1 < width;
                    const vf y[4] = {load(at), beside ? load(at + size) : zero(),
                                     below ? load(at + width * size) : zero(),
                                     below && beside ? load(at + (width + 1) * size) : zero()};
                    vf d[POINTS];
                    spread_points(y, d);
                    EFL_UNROLL
                    for (int f = 0; f < POINTS; ++f) store(to + f * plan.dy_step() + m, d[f]);
                }
    });
}

// The same of tiles of 4x4 positions. Lanes beyond the panel's outputs are overwritten by the next tile's.
static inline void transform_outputs(const GradientPlan<4>& plan, int64_t p, int64_t chunk, float* pixels) {
    const WeightGradient& w = plan.w;
    const int64_t size = plan.panels.size(p), height = w.geometry.out_h, width = w.geometry.out_w,
                  cols = plan.tiling.cols, step = plan.dy_step(), pitch = FOUR_SPAN * cols * W;
    float *to = plan.dy + plan.dy_panel(p), *lines = pixels + plan.pixels_size() - plan.lines_size();
    plan.tiling.each_strip(chunk, [&](const Strip& strip) {
        const int64_t top = 4 * strip.first, rows = least(4 * strip.rows, height - top);
        const float* from[MAX_ROWS];
        for (int64_t m = 0; m < size; ++m) from[m] = w.dy_plane(strip.image, plan.panels.first(p) + m) + top * width;
        interleave(from, size, rows * width, pixels, size);
        for (int64_t r = 0; r < 4 * strip.rows; r += 4, to += cols * size) {
            float* line = lines;
            for (int64_t i = r; i < r + 4; ++i)
                for (int64_t q = 0; q < 4 * cols; q += 4, line += FOUR_SPAN * W) {
                    const float* at = pixels + (i * width + q) * size;
                    vf y[4], d[FOUR_SPAN];
                    EFL_UNROLL
                    for (int k = 0; k < 4; ++k) y[k] = i < rows && q + k < width ? load(at + k * size) : zero();
                    four_spread(y, d);
                    EFL_UNROLL
                    for (int f = 0; f < FOUR_SPAN; ++f) store(line + f * W, d[f]);
                }
            for (int64_t n = 0; n < FOUR_SPAN; ++n)
                for (int64_t q = 0; q < cols; ++q) {
                    vf y[4], d[FOUR_SPAN];
                    EFL_UNROLL
                    for (int k = 0; k < 4; ++k) y[k] = load(lines + k * pitch + (q * FOUR_SPAN + n) * W);
                    four_spread(y, d);
                    EFL_UNROLL
                    for (int f = 0; f < FOUR_SPAN; ++f) store(to + q * size + (FOUR_SPAN * f + n) * step, d[f]);
                }
        }
    });
}

// Adds a chunk's tiles to the sums of group g: [point][output of the group][input].
template <int EDGE>
static void add_tiles(const GradientPlan<EDGE>& plan, int64_t g, int64_t tiles, bool fresh, float* sums) {
    const int64_t first = plan.groups.first(g), base = plan.outs_before(first);
    const Parts passes(tiles, MAX_TERMS);
    const Vector vectors[2] = {{0, 0, W}, {W, W, W}};
    for (int64_t f = 0; f < plan.POINTS; ++f)
        for (int64_t c = 0; c < plan.input_panels(); ++c)
            for (int64_t k = 0; k < passes.count; ++k)
                for (int64_t p = first; p < first + plan.groups.size(g); ++p) {
                    const int64_t size = plan.panels.size(p), t = passes.first(k);
                    const Product product{
                        .a = plan.dy + f * plan.dy_step() + plan.dy_panel(p) + t * size,
                        .b = plan.x + f * plan.x_step() + (c * plan.most + t) * INPUT_PANEL,
                        .off = plan.off,
                        .terms = passes.size(k),
                        .start = fresh && k == 0 ? plan.zeros : nullptr,
                        .c = sums + f * plan.sums_step() + c * INPUT_PANEL,
                        .row = plan.row + plan.panels.first(p) - base,
                        .vectors = vectors,
                    };
                    outer_product(product, size, plan.lanes(c) / W);
                }
}

// The nine taps from their sums.
static inline void gather_taps(const GradientPlan<2>& plan, const float* from, vf* dw) {
    vf u[POINTS], half[12];
    EFL_UNROLL
    for (int f = 0; f < POINTS; ++f) u[f] = load(from + f * plan.sums_step());
    EFL_UNROLL
    for (int q = 0; q < 4; ++q) gather_points(u + q, 4, half + q, 4);
    EFL_UNROLL
    for (int r = 0; r < 3; ++r) gather_points(half + 4 * r, 1, dw + 3 * r, 1);
}
static inline void gather_taps(const GradientPlan<4>& plan, const float* from, vf* dw) {
    vf half[3 * FOUR_SPAN];
    for (int q = 0; q < FOUR_SPAN; ++q) {
        vf u[FOUR_SPAN];
        EFL_UNROLL
        for (int f = 0; f < FOUR_SPAN; ++f) u[f] = load(from + (FOUR_SPAN * f + q) * plan.sums_step());
        four_gather(u, 1, half + q, FOUR_SPAN);
    }
    EFL_UNROLL
    for (int r = 0; r < 3; ++r) four_gather(half + FOUR_SPAN * r, 1, dw + 3 * r, 1);
}

// dw of group g from its sums.
template <int EDGE>
static void write_gradient(const GradientPlan<EDGE>& plan, int64_t g, const float* sums) {
    const int64_t base = plan.outs_before(plan.groups.first(g));
    for (int64_t m = 0; m < plan.group_outs(g); ++m)
        for (int64_t i = 0; i < plan.ins; i += W) {
            const float* from = sums + m * plan.pitch() + i;
            vf dw[9];
            float taps[9][W];
            gather_taps(plan, from, dw);
            EFL_UNROLL
            for (int t = 0; t < 9; ++t) store(taps[t], dw[t]);
            float* to = plan.w.dw + ((base + m) * plan.ins + i) * 9;
            for (int64_t l = 0; l < least(W, plan.ins - i); ++l)
                for (int64_t t = 0; t < 9; ++t) to[l * 9 + t] = taps[t][l];
        }
}

template <int EDGE>
static efl_status weight_by_tiles(const WeightGradient& w) {
    GradientPlan<EDGE> plan(w);
    const bool whole = plan.tiling.chunks.count == 1;
    const int64_t macs = plan.POINTS * plan.outs * plan.ins * plan.tiling.rows * plan.tiling.cols * w.conv.batch;
    const int64_t panels = plan.input_panels() + plan.panels.count, blocks = blocks_of(plan.groups.count, macs);
    const int64_t crew = threads_for(blocks);
    const Parts fills = Parts::into(panels, blocks), parts = Parts::into(plan.groups.count, blocks);
    if (!place([&](Carve& carve) { plan.lay_out(carve, whole ? crew : plan.groups.count, crew); }))
        return EFL_NO_MEMORY;
    for (int64_t t = 0; t < plan.most; ++t) plan.off[t] = t * INPUT_PANEL * OFF_UNIT;
    for (int64_t m = 0; m < plan.group_outs(0); ++m) plan.row[m] = m * plan.pitch();
    zero_floats(plan.zeros, MAX_ROWS);
    for (int64_t i = 0; i < plan.tiling.chunks.count; ++i) {
        each_block(fills.count, macs, crew, [&](int64_t b, int64_t thread) {
            float* pixels = plan.pixels + thread * plan.pixels_size();
            for (int64_t k = fills.first(b); k < fills.first(b) + fills.size(b); ++k) {
                if (k < plan.input_panels()) transform_inputs(plan, k, i, pixels);
                else transform_outputs(plan, k - plan.input_panels(), i, pixels);
            }
        });
        each_block(parts.count, macs, crew, [&](int64_t b, int64_t thread) {
            for (int64_t g = parts.first(b); g < parts.first(b) + parts.size(b); ++g) {
                float* sums = plan.sums + (whole ? thread : g) * plan.POINTS * plan.sums_step();
                add_tiles(plan, g, plan.tiling.tiles(i), i == 0, sums);
                if (i + 1 == plan.tiling.chunks.count) write_gradient(plan, g, sums);
            }
        });
    }
    return EFL_OK;
}

// Tiles of 4x4 positions, where a map has a third of the tiles or fewer, and they are enough for their sums.
static inline bool prefers_fours(const WeightGradient& w) {
    if (!pays_for_fours(w.ins_per_group(), count_of(w.outs, w.conv.out_channels), w.geometry.out_h, w.geometry.out_w))
        return false;
    const GradientPlan<4> plan(w);
    return w.conv.batch * plan.tiling.rows * plan.tiling.cols >= CHUNK_FOURS &&
           plan.POINTS * (plan.most * (plan.outs + plan.ins) +
                          plan.pitch() * (plan.tiling.chunks.count > 1 ? plan.outs : plan.group_outs(0))) <=
               FOURS_MEMORY;
}
