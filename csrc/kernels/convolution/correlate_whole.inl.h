// Correlation of maps of SIDE x SIDE cells, 2 or 3, with 3x3 taps at stride 1 and padding 1, lanes over images.
//
// Of the 36 pairs of a position and a tap of a 2x2 map 16 meet it, as many products as Winograd's way has; of a 3x3
// map's 81 pairs 49, where that has 64. There are no transforms. A few targets' positions stay in registers over all
// sources. A weight is used for one vector of images at a time, so weights are broadcast from where they lie.

template <int SIDE>
constexpr int MAX_MAPS = ACCUMULATORS / (SIDE * SIDE);  // targets at a time

// What a few targets share: sources in the order of `x`, each with its cells.
struct WholeMaps {
    const float* weight[MAX_MAPS<2>];  // of each target
    const int64_t* off;                // [sources], from there to the taps of a source
    int64_t sources;
    const float* x;      // [source][cell][image]
    float* y;            // [target][position][image]
    int64_t y_step;      // floats from target to target
    const float* start;  // of each target; nullptr: start from what y holds
};

// The sum of MAPS targets. TURNED: taps are met in reverse, as by an input gradient.
template <int SIDE, int MAPS, bool TURNED>
static void whole_maps(const WholeMaps& whole) {
    constexpr int CELLS = SIDE * SIDE;
    const WholeMaps p = whole;
    vf acc[MAPS][CELLS];
    EFL_UNROLL
    for (int m = 0; m < MAPS; ++m) {
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i) acc[m][i] = p.start ? set1(p.start[m]) : load(p.y + m * p.y_step + i * W);
    }
    const float* x = p.x;
    for (int64_t s = 0; s < p.sources; ++s, x += CELLS * W) {
        const int64_t off = p.off[s];
        vf cells[CELLS];
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i) cells[i] = load(x + i * W);
        EFL_UNROLL
        for (int m = 0; m < MAPS; ++m) {
            const float* taps = p.weight[m] + off;
            EFL_UNROLL
            for (int down = -1; down <= 1; ++down) {
                EFL_UNROLL
                for (int along = -1; along <= 1; ++along) {
                    const int tap = 3 * (down + 1) + along + 1;
                    const vf w = set1(taps[TURNED ? 8 - tap : tap]);
                    EFL_UNROLL
                    for (int i = 0; i < CELLS; ++i) {
                        const int row = i / SIDE + down, col = i % SIDE + along;
                        if (0 <= row && row < SIDE && 0 <= col && col < SIDE)
                            acc[m][i] = fma(w, cells[SIDE * row + col], acc[m][i]);
                    }
                }
            }
        }
    }
    EFL_UNROLL
    for (int m = 0; m < MAPS; ++m) {
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i) store(p.y + m * p.y_step + i * W, acc[m][i]);
    }
}

template <int SIDE, int MAPS = MAX_MAPS<SIDE>>
static void some_whole_maps(const WholeMaps& p, int64_t maps, bool turned) {
    if (maps == MAPS) return turned ? whole_maps<SIDE, MAPS, true>(p) : whole_maps<SIDE, MAPS, false>(p);
    if constexpr (MAPS > 1) some_whole_maps<SIDE, MAPS - 1>(p, maps, turned);
}

// x of a vector of images, cells apart: [source][cell][image]. Spare lanes repeat the first image.
template <int SIDE>
static void fill_maps(const Correlation& c, int64_t sources, int64_t first, int64_t count, float* to) {
    constexpr int CELLS = SIDE * SIDE;
    const float* from[W];
    for (int64_t l = 0; l < W; ++l) from[l] = c.source + (first + (l < count ? l : 0)) * c.source_channels * CELLS;
    for (int64_t s = 0; s < sources; ++s, to += CELLS * W) {
        EFL_UNROLL
        for (int i = 0; i < CELLS; i += 4) {
            const int at = i < CELLS - 4 ? i : CELLS - 4;  // four cells, the last ones some once more
            vf cells[4];
            load_columns(from, CELLS * id_of(c.sources, s) + at, cells);
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) store(to + (at + k) * W, cells[k]);
        }
    }
}

template <int SIDE>
static void write_maps(const Correlation& c, int64_t first, int64_t count, int64_t target, const float* from) {
    for (int64_t l = 0; l < count; ++l) {
        float* to = c.target + ((first + l) * c.target_channels + target) * SIDE * SIDE;
        for (int64_t i = 0; i < SIDE * SIDE; ++i) to[i] = from[i * W + l];
    }
}

template <int SIDE>
struct WholePlan {
    static constexpr int CELLS = SIDE * SIDE;
    const Correlation& c;
    int64_t sources, targets;
    Parts vectors, maps, runs;  // images in vectors; targets, and sources, as they are taken
    int64_t* off;
    float *start, *x, *y;

    explicit WholePlan(const Correlation& c_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          vectors(c.batch, W), maps(targets, MAX_MAPS<SIDE>), runs(sources, c.transposed ? SOURCE_RUNS : sources) {}

    int64_t x_vector() const { return sources * CELLS * W; }
    int64_t y_step() const { return vectors.count * CELLS * W; }

    void lay_out(Carve& carve) {
        off = carve.take<int64_t>(sources);
        start = carve.take<float>(targets);
        x = carve.take<float>(vectors.count * x_vector());
        y = carve.take<float>(targets * y_step());
    }
};

// Adds run r of the sources to the maps of part k, for all images.
template <int SIDE>
static void add_sources(const WholePlan<SIDE>& plan, int64_t k, int64_t r) {
    const int64_t first = plan.maps.first(k), count = plan.maps.size(k), source = plan.runs.first(r);
    for (int64_t v = 0; v < plan.vectors.count; ++v) {
        WholeMaps p{
            .weight = {},
            .off = plan.off + source,
            .sources = plan.runs.size(r),
            .x = plan.x + v * plan.x_vector() + source * plan.CELLS * W,
            .y = plan.y + first * plan.y_step() + v * plan.CELLS * W,
            .y_step = plan.y_step(),
            .start = r ? nullptr : plan.start + first,
        };
        for (int64_t m = 0; m < count; ++m) p.weight[m] = plan.c.weight_of(0, id_of(plan.c.targets, first + m));
        some_whole_maps<SIDE>(p, count, plan.c.transposed);
    }
}

template <int SIDE>
static efl_status correlate_whole(const Correlation& c) {
    WholePlan<SIDE> plan(c);
    if (!place([&](Carve& carve) { plan.lay_out(carve); })) return EFL_NO_MEMORY;
    for (int64_t s = 0; s < plan.sources; ++s) plan.off[s] = c.weight_of(id_of(c.sources, s), 0) - c.weight;
    for (int64_t m = 0; m < plan.targets; ++m) plan.start[m] = c.bias ? c.bias[id_of(c.targets, m)] : 0;
    for (int64_t v = 0; v < plan.vectors.count; ++v)
        fill_maps<SIDE>(c, plan.sources, plan.vectors.first(v), plan.vectors.size(v), plan.x + v * plan.x_vector());
    const int64_t blocks = blocks_of(plan.maps.count, (SIDE == 2 ? 16 : 49) * plan.sources * plan.targets * c.batch);
    const Parts parts = Parts::into(plan.maps.count, blocks);
    parallel(parts.count, [&](int64_t b) {
        for (int64_t r = 0; r < plan.runs.count; ++r)
            for (int64_t k = parts.first(b); k < parts.first(b) + parts.size(b); ++k) add_sources(plan, k, r);
    });
    for (int64_t m = 0; m < plan.targets; ++m)
        for (int64_t v = 0; v < plan.vectors.count; ++v)
            write_maps<SIDE>(c, plan.vectors.first(v), plan.vectors.size(v), id_of(c.targets, m),
                             plan.y + m * plan.y_step() + v * plan.CELLS * W);
    return EFL_OK;
}
