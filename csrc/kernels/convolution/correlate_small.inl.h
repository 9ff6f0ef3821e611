// Correlation of small maps with many target channels: positions of several images share a vector: no lane is lost.
//
// A tile of positions is gathered, for one pass over the terms, into a panel that stays in L1 while all weights of the
// pass go by. A row's positions move as one vector. A chunk of images has its results in L2 from pass to pass.

constexpr int64_t TILE_POSITIONS = 2 * W;
constexpr int64_t SMALL_TERMS = 192;        // of a pass
constexpr int64_t CHUNK_RESULTS = 1 << 16;  // floats

struct SmallPlan {
    CorrelationPlan plan;
    Parts chunks, jobs;  // images in chunks; chunks of one thread
    int64_t positions;   // of the largest chunk
    bool once;           // one tile has all positions, so a packed weight would be read once
    int64_t *base, *step;
    float *planes, *tile, *results;

    explicit SmallPlan(const Correlation& c)
        : plan(c, false), chunks(c.batch, fitting(c)),
          jobs(Parts::into(chunks.count, least(chunks.count, plan.blocks))), positions(chunks.size(0) * c.positions()),
          once(chunks.count == 1 && positions <= TILE_POSITIONS && plan.sources > 0 && c.taps() <= SMALL_TERMS) {
        plan.blocks = 0;  // its planes hold one image; here a job keeps those of a chunk
        if (once) plan.weights = MAX_ROWS * SMALL_TERMS;
    }

    // Images of a chunk.
    int64_t fitting(const Correlation& c) const {
        const int64_t fit = CHUNK_RESULTS / (plan.targets * c.positions()),
                      share = (c.batch + plan.blocks - 1) / plan.blocks;
        return fit < 1 ? 1 : least(fit, share);
    }
    int64_t planes_size(const Correlation& c) const { return chunks.size(0) * plan.sources * c.planes.size() + W; }
    int64_t tile_size(const Correlation& c) const {
        return (once ? plan.sources * c.taps() : SMALL_TERMS) * TILE_POSITIONS + W;
    }
    int64_t results_size() const { return plan.targets * positions; }

    void lay_out(const Correlation& c, Carve& carve) {
        plan.lay_out(c, carve);
        base = carve.take<int64_t>(positions);
        step = carve.take<int64_t>(SMALL_TERMS);
        planes = carve.take<float>(jobs.count * planes_size(c));
        tile = carve.take<float>(jobs.count * tile_size(c));
        results = carve.take<float>(jobs.count * results_size());
    }
};

static void tabulate_bases(const Correlation& c, const SmallPlan& small) {
    int64_t* base = small.base;
    for (int64_t n = 0; n < small.chunks.size(0); ++n)
        for (int64_t r = 0; r < c.planes.rows.count; ++r)
            for (int64_t q = 0; q < c.planes.cols.count; ++q)
                *base++ = n * small.plan.sources * c.planes.size() + r * c.planes.rows.step * c.planes.pitch + q;
    for (int64_t t = 0; t < SMALL_TERMS; ++t) small.step[t] = t * TILE_POSITIONS * OFF_UNIT;
}

// Positions side by side in a plane: where they start in it and in a tile.
struct Run {
    int64_t from, to;
};

constexpr int64_t MOST_RUNS = TILE_POSITIONS + 1;

// The runs, of up to a vector, of positions [first, first + width); how many there are. The first one gives the lanes
// of a second vector that no position needs numbers of the plane, as what lies there may be subnormal.
static int64_t find_runs(const Correlation& c, const int64_t* base, int64_t first, int64_t width, Run* runs) {
    const int64_t cols = c.planes.cols.count;
    int64_t count = 0;
    if (width > W) runs[count++] = Run{base[first], W};
    for (int64_t n = 0; n < width; n += least(cols - (first + n) % cols, W)) runs[count++] = Run{base[first + n], n};
    return count;
}

// What a vector has beyond its run is overwritten by the next one.
static void gather_tile(const float* planes, const int64_t* off, int64_t terms, const Run* runs, int64_t count,
                        float* tile) {
    for (int64_t t = 0; t < terms; ++t, tile += TILE_POSITIONS) {
        const float* from = planes + off[t] / OFF_UNIT;
        for (int64_t r = 0; r < count; ++r) store(tile + runs[r].to, load(from + runs[r].from));
    }
}

// All positions of a chunk of images: results [target][position].
static void correlate_positions(const Correlation& c, const SmallPlan& small, const float* planes, int64_t positions,
                                float* tile, float* results) {
    const int64_t terms = small.plan.sources * c.taps();
    const Parts passes(terms > 0 ? terms : 1, SMALL_TERMS), panels(small.plan.targets, MAX_ROWS),
        tiles(positions, TILE_POSITIONS);
    for (int64_t k = 0; k < passes.count; ++k)
        for (int64_t i = 0; i < tiles.count; ++i) {
            const int64_t t = passes.first(k), count = terms > 0 ? passes.size(k) : 0, width = tiles.size(i),
                          at = tiles.first(i);
            Run runs[MOST_RUNS];
            const int64_t found = find_runs(c, small.base, at, width, runs);
            gather_tile(planes, small.plan.off + t, count, runs, found, tile);
            const Vector vectors[2] = {{0, at, least(W, width)}, {W, at + W, width - W}};
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
                    .vectors = vectors,
                };
                outer_product(product, rows, width > W ? 2 : 1);
            }
        }
}

// The same for a single tile: a panel's weights for a few sources are packed where they stay in L1 until they are used.
// Weights are read in the order in which they lie in memory.
static void correlate_once(const Correlation& c, const SmallPlan& small, const float* planes, int64_t width,
                           float* tile, float* results) {
    const int64_t taps = c.taps();
    const Parts passes(small.plan.sources, SMALL_TERMS / taps), panels(small.plan.targets, MAX_ROWS);
    Run runs[MOST_RUNS];
    const int64_t found = find_runs(c, small.base, 0, width, runs);
    gather_tile(planes, small.plan.off, small.plan.sources * taps, runs, found, tile);
    const Vector vectors[2] = {{0, 0, least(W, width)}, {W, W, width - W}};
    const auto add = [&](const ChannelGroup& g, int64_t k, int64_t p) {
        const int64_t m = panels.first(p), rows = panels.size(p), first = passes.first(k);
        pack_panel(c, small.plan, g, m, rows, first, passes.size(k), small.plan.packed, true);
        const Product product{
            .a = small.plan.packed,
            .b = tile + first * taps * TILE_POSITIONS,
            .off = small.step,
            .terms = passes.size(k) * taps,
            .start = k ? nullptr : small.plan.start + m,
            .c = results,
            .row = small.plan.row + m,
            .vectors = vectors,
        };
        outer_product(product, rows, width > W ? 2 : 1);
    };
    each_group(c, [&](const ChannelGroup& g) {
        for (int64_t i = 0; i < passes.count * panels.count; ++i)
            if (c.transposed) add(g, i / panels.count, i % panels.count);
            else add(g, i % passes.count, i / passes.count);
    });
}

static void write_images(const Correlation& c, const SmallPlan& small, int64_t first, int64_t count,
                         const float* results) {
    for (int64_t n = 0; n < count; ++n)
        for (int64_t m = 0; m < small.plan.targets; ++m)
            write_plane(c, results + small.plan.row[m] + n * c.positions(),
                        c.target + ((first + n) * c.target_channels + id_of(c.targets, m)) * c.target_plane);
}

static void correlate_chunk(const Correlation& c, const SmallPlan& small, int64_t first, int64_t count, float* planes,
                            float* tile, float* results) {
    const int64_t source_plane = c.planes.rows.source * c.planes.cols.source, sources = small.plan.sources;
    for (int64_t i = 0; i < count * sources; ++i)
        small.plan.cells.fill(
            c.source + ((first + i / sources) * c.source_channels + id_of(c.sources, i % sources)) * source_plane,
            planes + i * c.planes.size());
    (small.once ? correlate_once : correlate_positions)(c, small, planes, count * c.positions(), tile, results);
    write_images(c, small, first, count, results);
}

static efl_status correlate_small(const Correlation& c) {
    SmallPlan small(c);
    if (!place([&](Carve& carve) { small.lay_out(c, carve); })) return EFL_NO_MEMORY;
    tabulate_terms(c, small.plan);
    tabulate_bases(c, small);
    for (int64_t m = 0; m < small.plan.targets; ++m) small.plan.row[m] = m * small.positions;
    each_group(c, [&](const ChannelGroup& g) {
        begin_sums(c, small.plan, g);
        if (!small.once) pack_weights(c, small.plan, g);
    });
    zero_floats(small.planes, small.jobs.count * small.planes_size(c));
    parallel(small.jobs.count, [&](int64_t j) {
        float *planes = small.planes + j * small.planes_size(c), *tile = small.tile + j * small.tile_size(c),
              *results = small.results + j * small.results_size();
        for (int64_t k = small.jobs.first(j); k < small.jobs.first(j) + small.jobs.size(j); ++k)
            correlate_chunk(c, small, small.chunks.first(k), small.chunks.size(k), planes, tile, results);
    });
    return EFL_OK;
}
