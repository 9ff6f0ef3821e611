// What a product's panels read, side by side: columns of the right side by tiles, and the factors of a panel.

// A block of a product, the tiles from `first` on, and the panel that reads it first.
struct Job {
    const ColumnProduct& p;
    const Cut& cut;
    const Chosen& columns;
    float* factors;  // where they are packed
    const float* start;
    float* packed;
    int64_t first;
    int64_t first_panel = 0;

    float* tile(int64_t n) const { return packed + cut.tile_at(n - first, p.terms); }
    // Whether tile `last - 1` is narrower than others.
    bool has_rest(int64_t last) const { return last * cut.width > cut.columns; }
};

// The vectors [first, last) of b's columns when b is transposed, [tile][term][width]. Lanes to spare hold what is
// harmless: numbers that happen to lie there may be subnormal, which costs a product a hundred times its time.
static void pack_transposed(const Job& job, int64_t first, int64_t last) {
    const ColumnProduct& p = job.p;
    const int64_t width = job.cut.width;
    for (int64_t n = first * W; n < last * W; n += W) {
        const int64_t lanes = least(W, job.cut.columns - n);
        float* to = job.tile(n / width) + n % width;
        const float* from[W];
        for (int64_t l = 0; l < lanes; ++l) from[l] = p.b + (n + l) * p.b_pitch;
        if (lanes < W)
            for (int64_t t = 0; t < p.terms; ++t) store(to + t * width, zero());
        interleave(from, lanes, p.terms, to, width);
    }
}

template <int VECTORS>
static void copy_tile(const ColumnProduct& p, int64_t column, int64_t t0, int64_t t1, float* to) {
    for (int64_t t = t0; t < t1; ++t, to += VECTORS * W) {
        const float* row = p.b_row(t) + column;
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) store(to + v * W, load(row + v * W));
    }
}

template <int VECTORS = 8>
static void copy_vectors(const ColumnProduct& p, int64_t vectors, int64_t column, int64_t t0, int64_t t1, float* to) {
    if (vectors == VECTORS) return copy_tile<VECTORS>(p, column, t0, t1, to);
    if constexpr (VECTORS > 1) copy_vectors<VECTORS - 1>(p, vectors, column, t0, t1, to);
}

// A few rows of tile n, [t0, t1), with zeros in the lanes to spare.
static void pack_tile(const Job& job, int64_t n, int64_t t0, int64_t t1) {
    const ColumnProduct& p = job.p;
    const int64_t pitch = job.cut.width, column = n * pitch, width = least(pitch, job.cut.columns - column);
    const int64_t last = (width - 1) / W * W;  // vector
    const bool all = !p.columns.ids || job.cut.whole();
    float* to = job.tile(n) + t0 * pitch;
    if (all && width == pitch) return copy_vectors(p, job.cut.vectors, column, t0, t1, to);
    if (all) {
        for (int64_t t = t0; t < t1; ++t, to += pitch) {
            const float* row = p.b_row(t) + column;
            copy_floats(to, row, last);
            store(to + last, load_n(row + last, int(width - last)));
        }
        return;
    }
    const float* rows[Chosen::ROWS];
    for (int64_t t = t0; t < t1; ++t) {
        rows[t - t0] = p.b_row(t);
        store(to + (t - t0) * pitch + last, zero());
    }
    job.columns.read(rows, t1 - t0, job.columns.range(column, column + width), to, pitch);
}

// Rows [t0, t1) of the tiles [first, last), [tile][term][width]: a few rows at a time from end to end.
static void pack_columns(const Job& job, int64_t first, int64_t last, int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; t += Chosen::ROWS)
        for (int64_t n = first; n < last; ++n) pack_tile(job, n, t, least(t1, t + Chosen::ROWS));
}

// A panel's factors for the terms [t0, t1), which are read by rows: [row][a_pitch].
static void pack_factor_rows(const Job& job, int64_t panel, int64_t t0, int64_t t1, float* packed) {
    const ColumnProduct& p = job.p;
    const Parts& panels = job.cut.panels;
    const float* from = p.a + panels.first(panel) * p.m_step;
    for (int64_t m = 0; m < panels.size(panel); ++m, from += p.m_step, packed += job.cut.a_pitch) {
        if (!p.t_ids.ids) copy_floats(packed, from + t0, t1 - t0);
        else
            for (int64_t t = t0; t < t1; ++t) packed[t - t0] = from[p.t_ids.ids[t]];
    }
}

// The others, [term][row]: lanes to spare are overwritten by the next term.
static void pack_factor_columns(const Job& job, int64_t panel, int64_t t0, int64_t t1, float* packed) {
    const ColumnProduct& p = job.p;
    const int64_t first = job.cut.panels.first(panel), rows = job.cut.panels.size(panel);
    for (int64_t t = t0; t < t1; ++t, packed += rows)
        for (int64_t m = 0; m < rows; m += W)
            store(packed + m, load_n(p.a + t * p.t_step + first + m, int(least(W, rows - m))));
}

// The same of factors that lie by rows. The last rows come first: their lanes to spare are the next term's first rows.
static void turn_factor_rows(const Job& job, int64_t panel, int64_t t0, int64_t t1, float* packed) {
    const ColumnProduct& p = job.p;
    const int64_t rows = job.cut.panels.size(panel);
    const float* from = p.a + job.cut.panels.first(panel) * p.m_step;
    if (p.t_ids.ids) {
        for (int64_t t = t0; t < t1; ++t)
            for (int64_t m = 0; m < rows; ++m) *packed++ = from[m * p.m_step + p.t_ids.ids[t]];
        return;
    }
    for (int64_t m = (rows - 1) / W * W; m >= 0; m -= W) {
        const int64_t lanes = least(W, rows - m);
        const float* row[W];
        for (int64_t l = 0; l < lanes; ++l) row[l] = from + (m + l) * p.m_step + t0;
        interleave(row, lanes, t1 - t0, packed + m, rows);
    }
}

static void pack_factors(const Job& job, int64_t panel, int64_t pass, float* packed) {
    const int64_t t0 = job.cut.passes.first(pass), t1 = least(job.p.terms, t0 + job.cut.passes.size(pass));
    if (job.cut.by_rows) pack_factor_rows(job, panel, t0, t1, packed);
    else if (job.p.t_step == 1) turn_factor_rows(job, panel, t0, t1, packed);
    else pack_factor_columns(job, panel, t0, t1, packed);
}

static void pack_all_factors(const Job& job) {
    const Cut& cut = job.cut;
    const Parts parts = Cut::runs_of(cut.panels.count, job.p.count * job.p.terms * cut.columns);
    parallel(parts.count, [&](int64_t task) {
        for (int64_t i = parts.first(task); i < parts.first(task) + parts.size(task); ++i)
            for (int64_t k = 0; k < cut.passes.count; ++k) pack_factors(job, i, k, job.factors + cut.factors_at(i, k));
    });
}

static void copy_bias(const ColumnProduct& p, const Cut& cut, float* start) {
    const int64_t last = (cut.columns - 1) / W * W;  // vector
    copy_floats(start, p.bias, last);
    store(start + last, load_n(p.bias + last, int(cut.columns - last)));
}
