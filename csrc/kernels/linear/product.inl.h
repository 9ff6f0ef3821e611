// The product of two matrices that a larger forward pass and both gradients of a Linear layer are. Rows of the result
// come in panels, its columns in tiles; what the panels multiply is packed by tiles, a block that stays in a second
// cache at a time, and each panel sweeps over all tiles of the block. Where panels are few nothing is packed.

constexpr int64_t PASS_TERMS = 384;        // terms of a pass: the factors of a panel stay in a first cache
constexpr int64_t BLOCK = 3 << 15;         // floats of a packed block
constexpr int64_t MAX_BLOCK = 1024;        // columns of it
constexpr int64_t FEW_ROWS = 24;           // of the result, for which packing what they multiply does not pay
constexpr int64_t SWEEP = 3 << 11;         // floats that a few panels in turn read in place: they stay in a first cache
constexpr int64_t PACKED_ROWS = 8;         // rows packed together
constexpr int64_t CONFLICTING_ROWS = 256;  // floats; rows apart by a multiple of this meet in few sets of a cache

// c[m, columns] = sum over t of a[m, t] * b[rows[t], columns[n]].
struct ColumnProduct {
    const float* a;  // a[m, t] at a[m_step * m + t_step * t] after the two selections; one of the steps is 1
    int64_t m_step, t_step;
    efl_index m_ids, t_ids;
    int64_t count, terms;  // rows of the result; terms of the sum
    const float* b;
    int64_t b_pitch, b_columns;
    bool b_transposed;     // b[t, n] lies at n * b_pitch + t; then nothing of b is selected
    bool b_rows_selected;  // row t of b is t_ids[t]; otherwise row t
    efl_index columns;
    const float* bias;  // added to the columns, or nullptr
    float* c;
    int64_t c_pitch;
    bool compact;                // column n of the result lands at n; otherwise at columns[n]
    const Step* step = nullptr;  // if given, the result is a gradient that a step of SGD takes in place of c

    const float* b_row(int64_t t) const { return b + (b_rows_selected ? id_of(t_ids, t) : t) * b_pitch; }
};

// How a product is cut up.
struct Cut {
    bool picked;                           // all columns are computed, then the chosen ones picked
    int64_t columns, words, width, tiles;  // that are computed; words and floats of a tile
    Parts panels, passes;                  // of rows; of terms
    bool by_rows, a_in_place, b_in_place;
    int64_t a_pitch;
    bool apart;    // results go through a buffer
    Parts blocks;  // of tiles
    int64_t turn;  // tiles that a panel meets before the next one does

    explicit Cut(const ColumnProduct& p)
        : picked(picks(p)), columns(picked ? p.b_columns : count_of(p.columns, p.b_columns)),
          words(words_of_tile(int(Parts(p.count, TILE_ROWS).size(0)))), width(words * W),
          tiles((columns + width - 1) / width), panels(p.count, TILE_ROWS),
          passes(p.terms > 0 ? p.terms : 1, PASS_TERMS), by_rows(p.t_step == 1),
          a_in_place(by_rows && !p.t_ids.ids && p.m_step % CONFLICTING_ROWS),
          b_in_place(!p.b_transposed && (picked || !p.columns.ids) && !(p.b_rows_selected && p.t_ids.ids) &&
                     p.count <= FEW_ROWS),
          a_pitch(a_in_place ? p.m_step : (p.terms + 31) / 32 * 32 + 16),
          apart(p.step || picked || (p.columns.ids && !p.compact)),
          blocks(tiles, b_in_place ? tiles : fitting(budget(p.count), p.terms)),
          turn(b_in_place && panels.count > 1 ? fitting(SWEEP, passes.size(0)) : fitting(INT64_MAX, 1)) {}

    // Picking columns out of the terms takes about as long as eight rows of the result take to compute them.
    static bool picks(const ColumnProduct& p) {
        return p.columns.ids && p.compact && !p.step && !p.b_rows_selected && p.count <= FEW_ROWS &&
               (p.b_columns - p.columns.count) * p.count < 8 * p.b_columns;
    }

    // Floats of a packed block. Few rows soon have swept over it, and a copy of the left side is memory as well.
    int64_t budget(int64_t rows) const {
        return rows <= FEW_ROWS ? BLOCK / 8 : by_rows && !a_in_place ? BLOCK / 2 : BLOCK;
    }

    // How many tiles of so many terms hold `floats`: one at least.
    int64_t fitting(int64_t floats, int64_t terms) const {
        const int64_t fit = least(floats / ((terms > 0 ? terms : 1) * width), MAX_BLOCK / width);
        return fit > 1 ? fit : 1;
    }
    // In the packed block, where tile n of it begins; floats that the factors take.
    int64_t tile_at(int64_t n, int64_t terms) const { return n * width * terms; }
    int64_t panel_at(int64_t i, int64_t terms) const { return panels.first(i) * terms + i * W; }
    int64_t factors(int64_t terms) const {
        return a_in_place ? 0
               : by_rows  ? panels.total * a_pitch
                          : panel_at(panels.count - 1, terms) + TILE_ROWS * terms;
    }
};

// Tiles [first, last) of b's columns when b is transposed, [tile][term][width].
static void pack_transposed(const ColumnProduct& p, const Cut& cut, int64_t first, int64_t last, float* packed) {
    const int64_t end = least(cut.columns, last * cut.width);
    for (int64_t n = first * cut.width; n < end; n += W) {
        const int64_t at = n - first * cut.width, lanes = least(W, end - n);
        const float* from[W];
        for (int64_t l = 0; l < lanes; ++l) from[l] = p.b + (n + l) * p.b_pitch;
        interleave(from, lanes, p.terms, packed + cut.tile_at(at / cut.width, p.terms) + at % cut.width, cut.width);
    }
}

template <int WORDS>
static void copy_tile(const ColumnProduct& p, int64_t column, int64_t t0, int64_t t1, float* to) {
    for (int64_t t = t0; t < t1; ++t, to += WORDS * W) {
        const float* row = p.b_row(t) + column;
        EFL_UNROLL
        for (int v = 0; v < WORDS; ++v) store(to + v * W, load(row + v * W));
    }
}

template <int WORDS = 8>
static void copy_words(const ColumnProduct& p, int64_t words, int64_t column, int64_t t0, int64_t t1, float* to) {
    if (words == WORDS) return copy_tile<WORDS>(p, column, t0, t1, to);
    if constexpr (WORDS > 1) copy_words<WORDS - 1>(p, words, column, t0, t1, to);
}

// What the tasks of a block share.
struct Job {
    const ColumnProduct& p;
    const Cut& cut;
    const Chosen& chosen;
    const float *factors, *start, *packed;
    int64_t first;  // tile
};

// Rows [t0, t1) of tile n.
static void pack_tile(const Job& job, int64_t n, int64_t t0, int64_t t1, float* to) {
    const ColumnProduct& p = job.p;
    const int64_t pitch = job.cut.width, column = n * pitch, width = least(pitch, job.cut.columns - column);
    const bool all = !p.columns.ids || job.cut.picked;
    if (all && width == pitch) return copy_words(p, job.cut.words, column, t0, t1, to);
    if (all) {
        for (int64_t t = t0; t < t1; ++t, to += pitch) copy_floats(to, p.b_row(t) + column, width);
        return;
    }
    const Chosen::Range range = job.chosen.range(column, column + width);
    for (int64_t t = t0; t < t1; ++t, to += pitch) job.chosen.read(p.b_row(t), range, to);
}

// Rows [t0, t1) of the tiles [first, last), [tile][term][width]: a few rows at a time from end to end.
static void pack_columns(const Job& job, int64_t first, int64_t last, int64_t t0, int64_t t1, float* packed) {
    for (int64_t t = t0; t < t1; t += PACKED_ROWS)
        for (int64_t n = first; n < last; ++n)
            pack_tile(job, n, t, least(t1, t + PACKED_ROWS),
                      packed + job.cut.tile_at(n - first, job.p.terms) + t * job.cut.width);
}

// Factors that are read by rows, [row][a_pitch].
static void pack_factor_rows(const ColumnProduct& p, const Cut& cut, float* packed) {
    for (int64_t m = 0; m < p.count; ++m, packed += cut.a_pitch) {
        const float* from = p.a + m * p.m_step;
        if (!p.t_ids.ids) copy_floats(packed, from, p.terms);
        else
            for (int64_t t = 0; t < p.terms; ++t) packed[t] = from[p.t_ids.ids[t]];
    }
}

// The others, [panel][term][row], and a word between panels: spare lanes are overwritten by the next term.
static void pack_factor_columns(const ColumnProduct& p, const Cut& cut, float* packed) {
    for (int64_t t = 0; t < p.terms; ++t) {
        const float* from = p.a + t * p.t_step;
        for (int64_t i = 0; i < cut.panels.count; ++i) {
            const int64_t first = cut.panels.first(i), rows = cut.panels.size(i);
            float* to = packed + cut.panel_at(i, p.terms) + t * rows;
            if (p.m_ids.ids)
                for (int64_t m = 0; m < rows; ++m) to[m] = from[p.m_ids.ids[first + m]];
            else
                for (int64_t m = 0; m < rows; m += W) store(to + m, load_n(from + first + m, int(least(W, rows - m))));
        }
    }
}

// Pass k of panel i over the tiles [first, last); the results go to c.
static void multiply_pass(const Job& job, int64_t i, int64_t k, int64_t first, int64_t last, float* c,
                          int64_t c_pitch) {
    const ColumnProduct& p = job.p;
    const Cut& cut = job.cut;
    const int64_t rows = cut.panels.size(i), m0 = cut.panels.first(i), t0 = cut.passes.first(k);
    const int64_t n0 = first * cut.width, whole = last - first - (last * cut.width > cut.columns);
    const int64_t rest = whole < last - first ? cut.columns - n0 - whole * cut.width : 0, words = (rest + W - 1) / W;
    Tiles t{
        .a = job.factors + (cut.by_rows ? m0 * cut.a_pitch + t0 : cut.panel_at(i, p.terms) + t0 * rows),
        .a_pitch = cut.by_rows ? cut.a_pitch : rows,
        .by_rows = cut.by_rows,
        .b = cut.b_in_place ? p.b_row(t0) + n0 : job.packed + cut.tile_at(first - job.first, p.terms) + t0 * cut.width,
        .b_pitch = cut.b_in_place ? p.b_pitch : cut.width,
        .b_step = cut.b_in_place ? cut.width : cut.tile_at(1, p.terms),
        .terms = p.terms > 0 ? cut.passes.size(k) : 0,
        .start = k == 0 && p.bias ? job.start + n0 : nullptr,
        .c = c,
        .c_pitch = c_pitch,
        .add = k > 0,
    };
    if (whole) multiply(t, rows, cut.words, whole, W);
    if (!rest) return;
    if (t.start) t.start += whole * cut.width;
    t.b = cut.b_in_place ? job.packed + t0 * cut.width : t.b + whole * t.b_step;
    t.b_pitch = cut.width;
    t.c += whole * cut.width;
    multiply(t, rows, words, 1, rest - (words - 1) * W);
}

// Results of rows [m0, m0 + rows) that went through a buffer, [rows][pitch], from column n0 on.
static void finish(const Job& job, int64_t m0, int64_t rows, int64_t n0, int64_t columns, const float* results,
                   int64_t pitch) {
    if (job.p.step) return job.p.step->apply(Step::Part{m0, rows, n0, columns, results, pitch});
    if (job.cut.picked)
        return job.chosen.pick(results, rows, pitch, n0, columns, job.p.c + m0 * job.p.c_pitch, job.p.c_pitch);
    for (int64_t m = 0; m < rows; ++m)
        job.chosen.write(results + m * pitch, n0, n0 + columns, job.p.c + (m0 + m) * job.p.c_pitch);
}

// Panels [i0, i1) over the tiles [first, last), all passes.
static void sweep(const Job& job, int64_t i0, int64_t i1, int64_t first, int64_t last, float* results) {
    const ColumnProduct& p = job.p;
    const Cut& cut = job.cut;
    const int64_t m0 = cut.panels.first(i0), rows = cut.panels.first(i1 - 1) + cut.panels.size(i1 - 1) - m0;
    for (int64_t n = first, end; n < last; n = end) {
        end = least(last, n + cut.turn);
        const int64_t n0 = n * cut.width, pitch = cut.apart ? cut.turn * cut.width : p.c_pitch;
        float* c = cut.apart ? results : p.c + m0 * p.c_pitch + n0;
        for (int64_t k = 0; k < cut.passes.count; ++k)
            for (int64_t i = i0; i < i1; ++i)
                multiply_pass(job, i, k, n, end, c + (cut.panels.first(i) - m0) * pitch, pitch);
        if (cut.apart) finish(job, m0, rows, n0, least(cut.columns, end * cut.width) - n0, results, pitch);
    }
}

// Where whole tiles of b are read in place: tasks are runs of tiles. The rest of a tile is packed.
static void multiply_in_place(const Job& job, float* packed, int64_t tasks, float* results, int64_t results_size) {
    const Cut& cut = job.cut;
    if (cut.columns % cut.width) pack_columns(job, cut.tiles - 1, cut.tiles, 0, job.p.terms, packed);
    const Parts parts = Parts::into(cut.tiles, least(cut.tiles, tasks));
    parallel(parts.count, [&](int64_t task) {
        const int64_t first = parts.first(task);
        sweep(job, 0, cut.panels.count, first, first + parts.size(task), results + task * results_size);
    });
}

// Where a block of b, the tiles [job.first, last), is packed: tasks pack runs of rows or tiles, then take runs of
// panels.
static void multiply_packed(const Job& job, int64_t last, float* packed, int64_t tasks, float* results,
                            int64_t results_size) {
    const ColumnProduct& p = job.p;
    const Cut& cut = job.cut;
    const int64_t runs = p.b_transposed ? last - job.first : p.terms;
    const Parts packers(runs, runs / tasks + 1);
    parallel(packers.count, [&](int64_t task) {
        const int64_t from = packers.first(task), to = from + packers.size(task);
        if (!p.b_transposed) return pack_columns(job, job.first, last, from, to, packed);
        pack_transposed(p, cut, job.first + from, job.first + to, packed + cut.tile_at(from, p.terms));
    });
    const Parts parts = Parts::into(cut.panels.count, least(cut.panels.count, tasks));
    parallel(parts.count, [&](int64_t task) {
        for (int64_t i = parts.first(task); i < parts.first(task) + parts.size(task); ++i)
            sweep(job, i, i + 1, job.first, last, results + task * results_size);
    });
}

static efl_status column_product(const ColumnProduct& p) {
    if (p.count == 0 || count_of(p.columns, p.b_columns) == 0) return EFL_OK;
    const Cut cut(p);
    const int64_t tasks = blocks_of(cut.b_in_place ? cut.tiles : cut.panels.count, p.count * p.terms * cut.columns);
    const int64_t rows = cut.b_in_place ? p.count : TILE_ROWS;
    const int64_t results_size = cut.apart ? rows * cut.turn * cut.width : 0;
    float *factors, *start, *packed, *results;
    Chosen chosen{p.columns, p.columns.ids ? p.b_columns : 0, nullptr, nullptr};
    if (!place([&](Carve& carve) {
            factors = carve.take<float>(cut.factors(p.terms));
            start = carve.take<float>(p.bias ? cut.tiles * cut.width : 0);
            packed = carve.take<float>(cut.tile_at(cut.b_in_place ? 1 : cut.blocks.size(0), p.terms));
            results = carve.take<float>(tasks * results_size);
            chosen.bits = carve.take<uint16_t>(chosen.words() + 1);
            chosen.rank = carve.take<int32_t>(chosen.words() + 1);
        }))
        return EFL_NO_MEMORY;
    if (!cut.a_in_place && cut.by_rows) pack_factor_rows(p, cut, factors);
    if (!cut.by_rows) pack_factor_columns(p, cut, factors);
    if (p.columns.ids) chosen.fill();
    if (p.bias) copy_floats(start, p.bias, cut.columns);
    for (int64_t i = 0; i < cut.blocks.count; ++i) {
        const int64_t first = cut.blocks.first(i);
        const Job job{p, cut, chosen, cut.a_in_place ? p.a : factors, start, packed, first};
        if (cut.b_in_place) multiply_in_place(job, packed, tasks, results, results_size);
        else multiply_packed(job, first + cut.blocks.size(i), packed, tasks, results, results_size);
    }
    return EFL_OK;
}
