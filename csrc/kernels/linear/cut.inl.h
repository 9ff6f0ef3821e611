// A product of two matrices, and how it is cut up. Rows of the result come in panels, its columns in tiles, terms of
// the sum in passes. The microkernel is in micro/tile.inl.h, what is packed for it in pack.inl.h.

constexpr int64_t PASS_TERMS = 384;        // terms of a pass: the factors of a panel stay in a first cache
constexpr int64_t NEAR_TERMS = 192;        // terms, up to which they do so where they lie, a cache line or two each
constexpr int64_t BLOCK = 3 << 15;         // floats of a packed block
constexpr int64_t MAX_BLOCK = 1024;        // columns of it
constexpr int64_t FEW_ROWS = 24;           // of the result, for which a block is not worth its memory
constexpr int64_t SWEEP = 3 << 11;         // floats that a few panels read in turn: they stay in a first cache
constexpr int64_t RUN_TERMS = 128;         // terms of a pass, and floats of a run of tiles, whose panels read the right
constexpr int64_t RUN = 1 << 16;           // side where it lies: the first one reads it into a second cache
constexpr int64_t CONFLICTING_ROWS = 256;  // floats; terms apart by a multiple of this meet in few sets of a cache

// Rows, up to which no copy of the right side pays: its vectors come from a second cache in time, and the stores of a
// copy take 5 to 25 % of a product. With 16 registers the copy pays for terms that share few sets of that cache, and a
// term of a tile takes six cycles, in which there is no room to fetch what the first panel has read.
constexpr int64_t ROWS_IN_PLACE = READS_IN_FMA && W > 4 ? 72 : 0;
constexpr int64_t SHARING_ROWS = REGISTERS < 32 ? 8 * CONFLICTING_ROWS : INT64_MAX;
constexpr bool FETCHED_BY_ALL = REGISTERS >= 32;

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
    Parts panels;         // of rows
    bool in_pairs;        // for cores in order: all operands are packed, term by term, and tiles are narrower
    bool picked, masked;  // all columns are computed, then the chosen ones picked, or they alone written
    int64_t columns, vectors, width, tiles;  // that are computed; vectors and floats of a tile
    bool b_in_place, keeps;                  // read where it lies: by the first panel, which keeps a copy, or by all
    Parts passes;                            // of terms
    bool by_rows, a_in_place;
    bool few;         // rows
    int64_t a_pitch;  // of factors by rows
    bool apart;       // results go through a buffer
    int64_t turn;
    int64_t owners;  // threads that work on it
    int64_t block;   // tiles, at most, that a thread packs together, where rows are not few
    bool by_panels;  // tasks are runs of panels over all tiles; otherwise runs of tiles, which meet all panels
    Parts runs;      // the tasks

    explicit Cut(const ColumnProduct& p)
        : panels(p.count, TILE_ROWS), in_pairs(VECTORS_IN_PAIRS && panels.size(0) > W && in_order()), picked(picks(p)),
          masked(masks(p)), columns(whole() ? p.b_columns : count_of(p.columns, p.b_columns)),
          vectors(in_pairs ? VECTORS_IN_PAIRS : vectors_of_tile(int(panels.size(0)))), width(vectors * W),
          tiles((columns + width - 1) / width),
          b_in_place(!in_pairs && !p.b_transposed && (whole() || !p.columns.ids) &&
                     !(p.b_rows_selected && p.t_ids.ids)),
          keeps(b_in_place && panels.count > 1 && (p.count > ROWS_IN_PLACE || p.b_pitch % SHARING_ROWS == 0)),
          passes(p.terms > 0 ? p.terms : 1, b_in_place && panels.count > 1 && !keeps ? RUN_TERMS : PASS_TERMS),
          by_rows(p.t_step == 1 && !in_pairs && !BY_LANES),
          a_in_place(!in_pairs && (by_rows || p.t_step > 1) && is_near(p)), few(p.count <= FEW_ROWS),
          a_pitch(a_in_place ? p.m_step : (passes.size(0) + 31) / 32 * 32 + 16),
          apart(p.step || picked || (p.columns.ids && !p.compact && !masked)),
          turn(least(fitting(keeps ? SWEEP : RUN, panels.count > 1 ? passes.size(0) : 1),
                     apart ? fitting(TILE_ROWS * MAX_BLOCK, p.count) : INT64_MAX)),
          owners(threads_for(blocks_of(threads(), p.count * p.terms * columns))),
          block(fitting((few ? BLOCK / 8 : BLOCK) / owners, p.terms)), by_panels(!in_turns() && prefers_panels(p)),
          runs(runs_of(by_panels ? panels.count : tiles, p.count * p.terms * columns)) {}

    // Picking columns out of the terms takes about as long as eight rows of the result take to compute them.
    static bool picks(const ColumnProduct& p) {
        return p.columns.ids && p.compact && !p.step && !p.b_rows_selected && p.count <= FEW_ROWS &&
               (p.b_columns - p.columns.count) * p.count < 8 * p.b_columns;
    }

    // Putting a row's results in their positions takes about as long as seven terms of all its columns.
    static bool masks(const ColumnProduct& p) {
        return p.columns.ids && !p.compact && !p.step && (p.b_columns - p.columns.count) * p.terms <= 7 * p.b_columns;
    }

    bool whole() const { return picked || masked; }

    bool is_near(const ColumnProduct& p) const {
        if (by_rows) return !p.t_ids.ids;
        return passes.size(0) <= NEAR_TERMS && p.t_step % CONFLICTING_ROWS;
    }

    // Whether runs of panels last less long than runs of tiles. Each thread makes a copy of the tiles for its panels,
    // which takes about as long as half a panel. Results of few terms are written in whole rows rather.
    bool prefers_panels(const ColumnProduct& p) const {
        const int64_t most_panels = (panels.count + owners - 1) / owners, most_tiles = (tiles + owners - 1) / owners;
        return owners > 1 && (2 * most_panels + 1) * tiles < (p.terms <= RUN_TERMS ? 3 : 2) * most_tiles * panels.count;
    }

    static Parts runs_of(int64_t count, int64_t macs) { return Parts::into(count, blocks_of(count, macs)); }

    // Whether each run of `turn` tiles meets all panels.
    bool in_turns() const { return b_in_place && (few || !keeps); }

    // How many tiles of so many terms hold `floats`: one at least.
    int64_t fitting(int64_t floats, int64_t terms) const {
        const int64_t fit = least(floats / ((terms > 0 ? terms : 1) * width), MAX_BLOCK / width);
        return fit > 1 ? fit : 1;
    }
    // In a packed block, where tile n of it begins; tiles of it that are packed or kept.
    int64_t tile_at(int64_t n, int64_t terms) const { return n * width * terms; }
    int64_t packed_tiles() const {
        if (in_turns()) return keeps ? least(turn, tiles) : 1;
        const int64_t first = blocks_of_run(0).size(0), last = blocks_of_run(runs.count - 1).size(0);
        return first > last ? first : last;  // fewer tiles may make larger blocks
    }
    // The blocks of the tiles of a task.
    Parts blocks_of_run(int64_t task) const { return Parts(by_panels ? tiles : runs.size(task), block); }

    // Floats of a panel's factors for a pass, and where they are among all.
    int64_t factors() const { return TILE_ROWS * (by_rows ? a_pitch : passes.size(0)) + W; }
    int64_t factors_at(int64_t panel, int64_t pass) const { return (panel * passes.count + pass) * factors(); }

    // Floats of the buffer that a thread's results go through.
    int64_t results() const {
        return !apart ? 0 : in_turns() ? panels.total * least(turn, tiles) * width : TILE_ROWS * packed_tiles() * width;
    }
};
