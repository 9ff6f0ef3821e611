// Correlation, lanes over the pixels of a row.
//
// Per image the source planes are copied once into padded planes, or where that costs less into one for every tap,
// whose vectors run across rows; the sum over (source channel, tap) then runs over a table of offsets. Weights are
// packed once per call, in panels of as many target channels as the registers hold.

constexpr int64_t MOST_ABREAST = 4;  // images that share vectors: half as many where several threads have such planes

// What the images of one call share, and the padded planes of each block of images. All of it in the caller's scratch.
struct CorrelationPlan {
    int64_t weights = 0, sources = 0, targets = 0;  // packed weights; most sources and targets of a group
    TapPlanes by_tap;
    int64_t blocks, vectors;
    bool flat;    // sources lie in planes for every tap
    bool spread;  // positions of a row are apart in the target, or images abreast: compute into planes apart, then copy
    bool overlap;  // the last vector of a row starts early and repeats lanes, so that no vector is partial
    int64_t *off, *tap, *row;
    Vector* vector;
    CellBlock* block;
    float *start, *packed, *planes, *apart;
    CellCopies cells;  // of a channel into its planes

    CorrelationPlan(const Correlation& c, bool may_be_flat) : by_tap(c.planes) {
        each_group(c, [&](const ChannelGroup& g) {
            weights += g.sources * g.targets * c.taps();
            sources = g.sources > sources ? g.sources : sources;
            targets = g.targets > targets ? g.targets : targets;
        });
        blocks = blocks_of(c.batch, c.batch * weights * c.positions());
        spread = c.target_col != 1;
        const int64_t flat_vectors = (c.positions() + W - 1) / W, products = targets * c.taps();
        vectors = c.planes.rows.count * ((c.planes.cols.count + W - 1) / W);
        // A cycle multiplies a pair of vectors, or copies a float.
        flat = may_be_flat && (spread || c.target_row == c.planes.cols.count) &&
               by_tap.size() + products * ((flat_vectors + 1) / 2) < c.planes.size() + products * ((vectors + 1) / 2);
        if (flat) vectors = flat_vectors;
        const bool sparse = 5 * flat_vectors * W > 6 * c.positions();
        if (flat && by_tap.plane() == c.positions() && (sparse || flat_vectors == 1)) join_images(c);
        overlap = run(c) >= W && sources * c.taps() <= MAX_TERMS;
    }

    // Several images share the vectors whose lanes one would leave empty, or have vectors enough for a tile.
    void join_images(const Correlation& c) {
        by_tap.abreast = least(blocks > 1 ? MOST_ABREAST / 2 : MOST_ABREAST, (c.batch + blocks - 1) / blocks);
        spread = spread || by_tap.abreast > 1;
        vectors = (run(c) + W - 1) / W;
    }

    // Positions side by side.
    int64_t run(const Correlation& c) const { return flat ? by_tap.abreast * c.positions() : c.planes.cols.count; }
    int64_t channel_size(const Correlation& c) const { return flat ? by_tap.size() : c.planes.size(); }

    int64_t rows(const Correlation& c) const { return spread ? targets : count_of(c.targets, c.target_channels); }
    int64_t planes_size(const Correlation& c) const { return sources * channel_size(c) + W; }
    // From one target's results to the next one's.
    int64_t apart_step(const Correlation& c) const { return by_tap.abreast * c.positions(); }
    int64_t apart_size(const Correlation& c) const { return spread ? targets * apart_step(c) : 0; }

    void lay_out(const Correlation& c, Carve& carve) {
        off = carve.take<int64_t>(sources * c.taps());
        tap = carve.take<int64_t>(c.taps());
        row = carve.take<int64_t>(rows(c));
        vector = carve.take<Vector>(vectors);
        block = carve.take<CellBlock>(flat ? by_tap.count() : c.planes.phases);
        start = carve.take<float>(count_of(c.targets, c.target_channels));
        packed = carve.take<float>(weights);
        planes = carve.take<float>(blocks * planes_size(c));
        apart = carve.take<float>(blocks * apart_size(c));
    }
};

// What all images share of the geometry.
static void tabulate_terms(const Correlation& c, CorrelationPlan& plan) {
    plan.cells = plan.flat ? plan.by_tap.copies(plan.block) : c.planes.copies(plan.block);
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    int64_t n = 0;
    for (int64_t kh = 0; kh < rows.kernel; ++kh)
        for (int64_t kw = 0; kw < cols.kernel; ++kw) {
            if (!rows.reaches(kh) || !cols.reaches(kw)) continue;
            const int64_t at = plan.flat ? plan.by_tap.at(kh, kw) : c.planes.at(rows.shift(kh), cols.shift(kw));
            plan.tap[n] = kh * cols.kernel + kw;
            for (int64_t s = 0; s < plan.sources; ++s)
                plan.off[s * c.taps() + n] = (s * plan.channel_size(c) + at) * OFF_UNIT;
            ++n;
        }
}

static void tabulate_vectors(const Correlation& c, const CorrelationPlan& plan) {
    const Axis &rows = c.planes.rows, &cols = c.planes.cols;
    const int64_t run = plan.run(c), runs = plan.flat ? 1 : rows.count,
                  target_row = plan.spread ? cols.count : c.target_row;
    Vector* vector = plan.vector;
    for (int64_t r = 0; r < runs; ++r)
        for (int64_t q = 0; q < run; q += W) {
            const int64_t at = plan.overlap ? least(q, run - W) : q;
            *vector++ = Vector{r * rows.step * c.planes.pitch + at, r * target_row + at, least(W, run - at)};
        }
}

// Whether the taps are all of the kernel's, in memory's order.
static bool has_all_taps(const Correlation& c, const CorrelationPlan& plan) {
    bool whole = c.taps() == c.planes.rows.kernel * c.planes.cols.kernel;
    for (int64_t t = 0; whole && t < c.taps(); ++t) whole = plan.tap[t] == t;
    return whole;
}

// Whether a target's weights lie in memory as its terms do.
static bool packs_runs(const Correlation& c, const CorrelationPlan& plan) {
    return !c.transposed && !c.sources.ids && has_all_taps(c, plan);
}

// The weights of sources [first, first + count) of a group for `rows` targets from the one numbered `target`:
// [source][tap][target]. alone: up to W floats past them may be overwritten.
static void pack_panel(const Correlation& c, const CorrelationPlan& plan, const ChannelGroup& g, int64_t target,
                       int64_t rows, int64_t first, int64_t count, float* to, bool alone = false) {
    const int64_t taps = c.taps();
    const float* from[MAX_ROWS];
    for (int64_t m = 0; m < rows; ++m)
        from[m] = c.weight_of(id_of(c.sources, g.source), id_of(c.targets, g.target + target + m), g.inner);
    if (packs_runs(c, plan)) {
        for (int64_t m = 0; m < rows; ++m) from[m] += first * taps;
        return interleave(from, rows, count * taps, to, rows);
    }
    if (W == 4 && c.transposed && taps == 1 && has_all_taps(c, plan) && !c.targets.ids) {
        const int64_t inner = c.weight_inner, at = first * inner;
        if (!c.sources.ids) return copy_rows(to, rows, from[0] + at, inner, count, rows);
        for (int64_t s = first; s < first + count; ++s, to += rows) {
            const float* source = c.weight_of(id_of(c.sources, g.source + s), 0);
            copy_rows(to, rows, from[0] + (source - c.weight_of(id_of(c.sources, g.source), 0)), inner, 1, rows);
        }
        return;
    }
    const bool by_words = (alone || (W == 4 && rows >= W)) && taps >= 4 && has_all_taps(c, plan);
    for (int64_t s = first; s < first + count; ++s, to += taps * rows) {
        const int64_t at = c.weight_of(id_of(c.sources, g.source + s), 0) - c.weight_of(id_of(c.sources, g.source), 0);
        const float* source[MAX_ROWS];
        for (int64_t m = 0; m < rows; ++m) source[m] = from[m] + at;
        if (by_words) {
            interleave(source, rows, taps, to, rows);
            continue;
        }
        for (int64_t t = 0; t < taps; ++t)
            for (int64_t m = 0; m < rows; ++m) to[t * rows + m] = source[m][plan.tap[t]];
    }
}

// Panels of one group: [panel][term][row of the panel]. Weights are read in the order in which they lie in memory.
static void pack_weights(const Correlation& c, const CorrelationPlan& plan, const ChannelGroup& g) {
    const Parts panels(g.targets, MAX_ROWS), runs(g.sources, c.transposed || g.sources == 0 ? SOURCE_RUNS : g.sources);
    for (int64_t r = 0; r < runs.count; ++r)
        for (int64_t p = 0; p < panels.count; ++p)
            pack_panel(
                c, plan, g, panels.first(p), panels.size(p), runs.first(r), runs.size(r),
                plan.packed + g.weights + (panels.first(p) * g.sources + runs.first(r) * panels.size(p)) * c.taps());
}

// What the sums of a group's targets start from.
static void begin_sums(const Correlation& c, const CorrelationPlan& plan, const ChannelGroup& g) {
    for (int64_t m = 0; m < g.targets; ++m)
        plan.start[g.target + m] = c.bias ? c.bias[id_of(c.targets, g.target + m)] : 0;
}

// One group of one image, planes already filled.
static void correlate_group(const Correlation& c, const CorrelationPlan& plan, const ChannelGroup& g,
                            const float* planes, float* target, const int64_t* row) {
    const int64_t terms = g.sources * c.taps();
    const Parts passes(terms > 0 ? terms : 1, MAX_TERMS), panels(g.targets, MAX_ROWS);
    for (int64_t k = 0; k < passes.count; ++k)
        for (int64_t p = 0; p < panels.count; ++p) {
            const int64_t m = panels.first(p), rows = panels.size(p), t = passes.first(k);
            const float* a = plan.packed + g.weights + m * terms + t * rows;
            const Product product{
                .a = a,
                .b = planes,
                .off = plan.off + t,
                .terms = terms ? passes.size(k) : 0,
                .start = k ? nullptr : plan.start + g.target + m,
                .c = target,
                .row = row + m,
                .vectors = plan.vector,
            };
            outer_product(product, rows, plan.vectors);
        }
}

// Copies planes computed apart to their rows and columns of the target.
static void spread_group(const Correlation& c, const CorrelationPlan& plan, const ChannelGroup& g, const float* apart,
                         float* target) {
    for (int64_t m = 0; m < g.targets; ++m)
        write_plane(c, apart + m * plan.apart_step(c), target + id_of(c.targets, g.target + m) * c.target_plane);
}

// `count` images that are abreast, or one.
static void correlate_images(const Correlation& c, const CorrelationPlan& plan, int64_t first, int64_t count,
                             float* planes, float* apart) {
    const int64_t source_plane = c.planes.rows.source * c.planes.cols.source;
    const auto target = [&](int64_t n) { return c.target + (first + n) * c.target_channels * c.target_plane; };
    each_group(c, [&](const ChannelGroup& g) {
        for (int64_t n = 0; n < count; ++n)
            for (int64_t s = 0; s < g.sources; ++s)
                plan.cells.fill(
                    c.source + ((first + n) * c.source_channels + id_of(c.sources, g.source + s)) * source_plane,
                    planes + s * plan.channel_size(c) + n * c.positions());
        correlate_group(c, plan, g, planes, plan.spread ? apart : target(0), plan.row + (plan.spread ? 0 : g.target));
        for (int64_t n = 0; n < (plan.spread ? count : 0); ++n)
            spread_group(c, plan, g, apart + n * c.positions(), target(n));
    });
}

static efl_status correlate_rows(const Correlation& c) {
    CorrelationPlan plan(c, true);
    if (!place([&](Carve& carve) { plan.lay_out(c, carve); })) return EFL_NO_MEMORY;
    tabulate_terms(c, plan);
    tabulate_vectors(c, plan);
    for (int64_t i = 0; i < plan.rows(c); ++i)
        plan.row[i] = plan.spread ? i * plan.apart_step(c) : id_of(c.targets, i) * c.target_plane;
    each_group(c, [&](const ChannelGroup& g) {
        begin_sums(c, plan, g);
        pack_weights(c, plan, g);
    });
    zero_floats(plan.planes, plan.blocks * plan.planes_size(c));
    const Parts images(c.batch, (c.batch + plan.blocks - 1) / plan.blocks);
    parallel(images.count, [&](int64_t block) {
        const Parts few(images.size(block), plan.by_tap.abreast);
        for (int64_t i = 0; i < few.count; ++i)
            correlate_images(c, plan, images.first(block) + few.first(i), few.size(i),
                             plan.planes + block * plan.planes_size(c), plan.apart + block * plan.apart_size(c));
    });
    return EFL_OK;
}
