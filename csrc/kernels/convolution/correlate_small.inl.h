// Correlation of small maps with many target channels: positions of several images share a word: no lane is lost.
//
// A tile of positions is gathered, for one pass over the terms, into a panel that stays in L1 while all weights pass
// by. The gather costs about one cycle per value and is paid back by `targets` products with it.

constexpr int64_t TILE_POSITIONS = 2 * W;

struct SmallPlan {
    CorrelationPlan plan;
    Parts images;
    int64_t positions;  // of the largest block
    int64_t *base, *step;
    float *planes, *tile, *results;

    explicit SmallPlan(const Correlation& c)
        : plan(c, false), images(c.batch, (c.batch + plan.blocks - 1) / plan.blocks),
          positions(images.size(0) * c.positions()) {
        plan.blocks = 0;  // its planes hold one image; here a block keeps all of its images
    }

    int64_t planes_size(const Correlation& c) const { return images.size(0) * plan.sources * c.planes.size(); }

    void lay_out(const Correlation& c, Carve& carve) {
        plan.lay_out(c, carve);
        base = carve.take<int64_t>(positions);
        step = carve.take<int64_t>(MAX_TERMS);
        planes = carve.take<float>(images.count * planes_size(c));
        tile = carve.take<float>(images.count * MAX_TERMS * TILE_POSITIONS);
        results = carve.take<float>(images.count * plan.targets * positions);
    }
};

static void tabulate_bases(const Correlation& c, const SmallPlan& small) {
    int64_t* base = small.base;
    for (int64_t n = 0; n < small.images.size(0); ++n)
        for (int64_t r = 0; r < c.planes.rows.count; ++r)
            for (int64_t q = 0; q < c.planes.cols.count; ++q)
                *base++ = n * small.plan.sources * c.planes.size() + r * c.planes.rows.step * c.planes.pitch + q;
    for (int64_t t = 0; t < MAX_TERMS; ++t) small.step[t] = t * TILE_POSITIONS;
}

static void gather_tile(const float* planes, const int64_t* off, int64_t terms, const int64_t* base, int64_t width,
                        float* tile) {
    for (int64_t t = 0; t < terms; ++t, tile += TILE_POSITIONS) {
        const float* from = planes + off[t];
        for (int64_t n = 0; n < width; ++n) tile[n] = from[base[n]];
    }
}

// All positions of a block of images: results [target][position].
static void correlate_positions(const Correlation& c, const SmallPlan& small, const float* planes, int64_t positions,
                                float* tile, float* results) {
    const int64_t terms = small.plan.sources * c.taps();
    const Parts passes(terms > 0 ? terms : 1, MAX_TERMS), panels(small.plan.targets, MAX_ROWS),
        tiles(positions, TILE_POSITIONS);
    for (int64_t k = 0; k < passes.count; ++k)
        for (int64_t i = 0; i < tiles.count; ++i) {
            const int64_t t = passes.first(k), count = terms > 0 ? passes.size(k) : 0, width = tiles.size(i),
                          at = tiles.first(i);
            gather_tile(planes, small.plan.off + t, count, small.base + at, width, tile);
            const Word words[2] = {{0, at, least(W, width)}, {W, at + W, width - W}};
            for (int64_t p = 0; p < panels.count; ++p) {
                const int64_t m = panels.first(p), rows = panels.size(p);
                const Product product{
                    .a = small.plan.packed + m * terms + t * rows,
                    .b = tile,
                    .off = small.step,
                    .terms = count,
                    .start = k ? nullptr : small.plan.start + m,
                    .c = results,
                    .row = small.plan.row + m,
                    .words = words,
                };
                outer_product(product, rows, width > W ? 2 : 1);
            }
        }
}

static void write_images(const Correlation& c, const SmallPlan& small, int64_t first, int64_t count,
                         const float* results) {
    const int64_t height = c.planes.rows.count, width = c.planes.cols.count;
    for (int64_t n = 0; n < count; ++n)
        for (int64_t m = 0; m < small.plan.targets; ++m) {
            const float* from = results + small.plan.row[m] + n * c.positions();
            float* to = c.target + ((first + n) * c.target_channels + id_of(c.targets, m)) * c.target_plane;
            if (c.target_row == width && c.target_col == 1) copy_floats(to, from, height * width);
            else
                for (int64_t r = 0; r < height; ++r)
                    for (int64_t q = 0; q < width; ++q) to[r * c.target_row + q * c.target_col] = from[r * width + q];
        }
}

static efl_status correlate_small(const Correlation& c) {
    SmallPlan small(c);
    if (!place([&](Carve& carve) { small.lay_out(c, carve); })) return EFL_NO_MEMORY;
    tabulate_terms(c, small.plan);
    tabulate_bases(c, small);
    for (int64_t m = 0; m < small.plan.targets; ++m) small.plan.row[m] = m * small.positions;
    each_group(c, [&](const ChannelGroup& g) { pack_weights(c, small.plan, g); });
    zero_floats(small.planes, small.images.count * small.planes_size(c));
    const int64_t source_plane = c.planes.rows.source * c.planes.cols.source, sources = small.plan.sources;
    parallel(small.images.count, [&](int64_t block) {
        const int64_t first = small.images.first(block), count = small.images.size(block);
        float *planes = small.planes + block * small.planes_size(c),
              *results = small.results + block * small.plan.targets * small.positions;
        for (int64_t i = 0; i < count * sources; ++i)
            small.plan.cells.fill(
                c.source + ((first + i / sources) * c.source_channels + id_of(c.sources, i % sources)) * source_plane,
                planes + i * c.planes.size());
        correlate_positions(c, small, planes, count * c.positions(), small.tile + block * MAX_TERMS * TILE_POSITIONS,
                            results);
        write_images(c, small, first, count, results);
    });
    return EFL_OK;
}
