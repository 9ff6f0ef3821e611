// Weight gradient of a 5x5 convolution at stride 1 by the transposed of correlate_fives: 49 products per tile, not 100.
//
// Lanes are input channels. Panels of them are independent: the sums of one, [point][output][input], stay in L2 while
// all images pass by, a few tiles at a time; x is transformed to [point][tile][input], dy once for each panel to
// [result][panel of outputs][tile][output]. Errors as the correlation's.

constexpr int64_t FIVES_GRADIENT_TILES = 64;  // terms of a sum at a time

struct FivesGradient {
    const WeightGradient& w;
    int64_t outs, ins;
    Tiling tiling;
    Parts inputs, panels;  // inputs, and outputs, in panels
    int64_t most;          // tiles of a chunk
    int64_t *off, *row;
    float *zeros, *x, *dy, *sums, *pixels;

    explicit FivesGradient(const WeightGradient& w_)
        : w(w_), outs(count_of(w.outs, w.conv.out_channels)), ins(w.ins_per_group()),
          tiling(w.conv.batch, w.geometry.out_h, w.geometry.out_w, 1, FIVES_GRADIENT_TILES), inputs(ins, INPUT_PANEL),
          panels(outs, MAX_ROWS), most(tiling.most()) {}

    // Where panel p of dy starts; a cache line apart, as the spare lanes of its last vector are written while others
    // are filled.
    int64_t dy_panel(int64_t p) const { return (p < panels.count ? panels.first(p) : outs) * most + p * LINE; }
    // Floats from point to point; a cache line more than the data, as in Fives.
    int64_t x_step() const { return INPUT_PANEL * most + LINE; }
    int64_t dy_step() const { return dy_panel(panels.count) + LINE; }
    int64_t sums_step() const { return outs * INPUT_PANEL + LINE; }
    int64_t strip_width() const { return 2 * tiling.cols + SPAN - 2; }
    // dy's memory holds the pixels of x while these are transformed.
    int64_t dy_size() const {
        const int64_t own = POINTS * dy_step(),
                      pixels = (2 * tiling.strips.size(0) + SPAN - 2) * strip_width() * INPUT_PANEL;
        return own > pixels ? own : pixels;
    }
    int64_t pixels_size() const { return 2 * tiling.strips.size(0) * w.geometry.out_w * MAX_ROWS + W; }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(most);
        row = carve.take<int64_t>(outs);
        zeros = carve.take<float>(MAX_ROWS);
        x = carve.take<float>(crew * FIVE_POINTS * x_step());
        dy = carve.take<float>(crew * dy_size());
        sums = carve.take<float>(crew * FIVE_POINTS * sums_step());
        pixels = carve.take<float>(crew * pixels_size());
    }
    // With the memory of one thread.
    FivesGradient of_thread(int64_t k) const {
        FivesGradient own = *this;
        own.x += k * FIVE_POINTS * x_step(), own.dy += k * dy_size(), own.sums += k * FIVE_POINTS * sums_step();
        own.pixels += k * pixels_size();
        return own;
    }
};

static bool prefers_fives(const WeightGradient& w) {
    const efl_conv2d& c = w.conv;
    const bool plain = c.kernel_h == FIVE && c.kernel_w == FIVE && c.stride_h == 1 && c.stride_w == 1 && c.dil_h == 1 &&
                       c.dil_w == 1 && c.groups == 1;
    const int64_t outs = count_of(w.outs, c.out_channels), ins = w.ins_per_group();
    if (!plain || FIVE_POINTS * outs * ins > FIVES_WEIGHTS || outs * ins < FIVES_BALANCE * (outs + ins)) return false;
    const int64_t tiles = (w.geometry.out_h + 1) / 2 * ((w.geometry.out_w + 1) / 2);
    return c.batch * tiles >= 32 && 3 * FIVE_POINTS * tiles <= 2 * FIVE * FIVE * w.positions();
}

// Rows of x under a strip, channels of panel c last, in a frame of zeros: [row][column][channel].
static void fill_five_pixels(const FivesGradient& plan, int64_t c, const Strip& strip, float* pixels) {
    const WeightGradient& w = plan.w;
    const Axis &rows = w.planes.rows, &cols = w.planes.cols;
    const int64_t height = 2 * strip.rows + SPAN - 2, width = plan.strip_width(), count = plan.inputs.size(c);
    const int64_t top = rows.origin + 2 * strip.first, left = cols.origin < 0 ? -cols.origin : 0,
                  right = least(width, cols.source - cols.origin);
    zero_floats(pixels, height * width * INPUT_PANEL);
    for (int64_t r = top < 0 ? -top : 0; r < least(height, rows.source - top); ++r)
        for (int64_t k = 0; k < count; k += W) {
            const float* from[W];
            for (int64_t l = 0; l < least(W, count - k); ++l)
                from[l] =
                    w.x_plane(strip.image, plan.inputs.first(c) + k + l) + (top + r) * cols.source + cols.origin + left;
            interleave(from, least(W, count - k), right - left, pixels + (r * width + left) * INPUT_PANEL + k,
                       INPUT_PANEL);
        }
}

// The points of a tile whose cells lie `step` floats apart along rows: to + point * to_step.
static inline void five_tile(const float* from, int64_t step, float* to, int64_t to_step) {
    vf half[SPAN * LINE_POINTS];
    EFL_UNROLL
    for (int i = 0; i < SPAN; ++i) {
        vf d[SPAN];
        EFL_UNROLL
        for (int j = 0; j < SPAN; ++j) d[j] = load(from + i * step + j * INPUT_PANEL);
        five_data(d, half + i * LINE_POINTS);
    }
    for (int b = 0; b < LINE_POINTS; ++b) {
        vf d[SPAN], points[LINE_POINTS];
        EFL_UNROLL
        for (int i = 0; i < SPAN; ++i) d[i] = half[i * LINE_POINTS + b];
        five_data(d, points);
        EFL_UNROLL
        for (int a = 0; a < LINE_POINTS; ++a) store(to + FIVE_ORDER.position[a][b] * to_step, points[a]);
    }
}

// Panel c of the transformed x of a chunk.
static void transform_five_inputs(const FivesGradient& plan, int64_t c, int64_t chunk) {
    const int64_t step = plan.strip_width() * INPUT_PANEL;
    float *to = plan.x, *pixels = plan.dy;
    plan.tiling.each_strip(chunk, [&](const Strip& strip) {
        fill_five_pixels(plan, c, strip, pixels);
        for (int64_t r = 0; r < strip.rows; ++r)
            for (int64_t q = 0; q < plan.tiling.cols; ++q, to += INPUT_PANEL)
                for (int64_t k = 0; k < plan.inputs.size(c); k += W)
                    five_tile(pixels + 2 * r * step + 2 * q * INPUT_PANEL + k, step, to + k, plan.x_step());
    });
}

// Adds a chunk's tiles to the sums of panel c: [point][output][input].
static void add_fives(const FivesGradient& plan, int64_t c, int64_t tiles, bool fresh) {
    const Vector vectors[2] = {{0, 0, W}, {W, W, W}};
    for (int64_t r = 0; r < POINTS; ++r)
        for (int64_t f = FIVE_ORDER.first[r]; f < FIVE_ORDER.first[r + 1]; ++f)
            for (int64_t p = 0; p < plan.panels.count; ++p) {
                const Product product{
                    .a = plan.dy + r * plan.dy_step() + plan.dy_panel(p),
                    .b = plan.x + f * plan.x_step(),
                    .off = plan.off,
                    .terms = tiles,
                    .start = fresh ? plan.zeros : nullptr,
                    .c = plan.sums + f * plan.sums_step(),
                    .row = plan.row + plan.panels.first(p),
                    .vectors = vectors,
                };
                outer_product(product, plan.panels.size(p), (plan.inputs.size(c) + W - 1) / W);
            }
}

// to = the gradients of five taps from the gradients of their seven points, `by` vectors apart: five_weights
// transposed.
static inline void five_gradients(const vf* u, int by, vf* to) {
    gather_points(u, by, to, 1);
    to[3] = add(u[4 * by], u[5 * by]), to[4] = add(u[5 * by], u[6 * by]);
}

// dw of panel c from its sums.
static void write_fives_gradient(const FivesGradient& plan, int64_t c) {
    const int64_t step = plan.sums_step(), size = plan.inputs.size(c);
    for (int64_t o = 0; o < plan.outs; ++o)
        for (int64_t i = 0; i < size; i += W) {
            const float* from = plan.sums + o * INPUT_PANEL + i;
            float taps[FIVE * FIVE][W];
            vf half[LINE_POINTS * FIVE];
            for (int a = 0; a < LINE_POINTS; ++a) {
                vf u[LINE_POINTS];
                for (int b = 0; b < LINE_POINTS; ++b) u[b] = load(from + FIVE_ORDER.position[a][b] * step);
                five_gradients(u, 1, half + a * FIVE);
            }
            for (int q = 0; q < FIVE; ++q) {
                vf dw[FIVE];
                five_gradients(half + q, FIVE, dw);
                for (int r = 0; r < FIVE; ++r) store(taps[r * FIVE + q], dw[r]);
            }
            float* to = plan.w.dw + (o * plan.ins + plan.inputs.first(c) + i) * FIVE * FIVE;
            for (int64_t l = 0; l < least(W, size - i); ++l)
                for (int64_t t = 0; t < FIVE * FIVE; ++t) to[l * FIVE * FIVE + t] = taps[t][l];
        }
}

static efl_status weight_by_fives(const WeightGradient& w) {
    FivesGradient plan(w);
    const int64_t macs = FIVE_POINTS * plan.outs * plan.ins * plan.tiling.rows * plan.tiling.cols * w.conv.batch;
    const int64_t crew = threads_for(plan.inputs.count);
    if (!place([&](Carve& carve) { plan.lay_out(carve, crew); })) return EFL_NO_MEMORY;
    for (int64_t t = 0; t < plan.most; ++t) plan.off[t] = t * INPUT_PANEL * OFF_UNIT;
    for (int64_t m = 0; m < plan.outs; ++m) plan.row[m] = m * INPUT_PANEL;
    zero_floats(plan.zeros, MAX_ROWS);
    each_block(plan.inputs.count, macs, crew, [&](int64_t c, int64_t thread) {
        const FivesGradient own = plan.of_thread(thread);
        for (int64_t i = 0; i < plan.tiling.chunks.count; ++i) {
            transform_five_inputs(own, c, i);
            for (int64_t p = 0; p < plan.panels.count; ++p) transform_outputs(own, p, i, own.pixels);
            add_fives(own, c, plan.tiling.tiles(i), i == 0);
        }
        write_fives_gradient(own, c);
    });
    return EFL_OK;
}
