// The matrix-product microkernel: tiles of a few rows and a few vectors, held in registers over all the terms of a sum.
// The linear gradients and the forward pass of a larger batch are made of it. Its operands lie at even distances, where
// those of outer_product are found by tables.
//
//     c[m][n] = (add ? c[m][n] : 0) + start[n] + sum over t of a[m][t] * b[t][n]

constexpr int TILE_ROWS = REGISTERS < 32 ? 6 : READS_IN_FMA ? 9 : 8;

constexpr int vectors_of_tile(int rows) {
    return REGISTERS < 32 ? vectors_per_tile(rows) : rows > 6 ? 3 : rows > 2 ? 4 : 8;
}

constexpr int64_t LONG_SUM = 32;  // terms, from which it pays to fetch the tile's position in c ahead
constexpr int64_t AHEAD = 4;      // terms, by which rows of b that lie far apart are fetched ahead

struct Tiles {
    const float* a;
    int64_t a_pitch;
    bool by_rows;  // a[m][t] lies at m * a_pitch + t; otherwise at t * a_pitch + m
    const float* b;
    int64_t b_pitch, b_step;  // from a term to the next, and from a tile to the next: in c they are neighbours
    bool b_far;               // b's rows lie apart, where no processor fetches them by itself; then tiles are whole
    float* keep;              // of such a b, where the vectors of each tile are put down as they are read; or nullptr
    int64_t keep_step;        // from a tile to the next there
    int64_t terms;
    const float* start;  // nullptr: zeros. Like b it is read by whole vectors.
    float* c;
    int64_t c_pitch;
    bool add;
    const uint16_t* chosen;  // which lanes of each vector of the tiles are written; nullptr: all
};

// Where a lies. Rows come in groups of four, which x86 addresses by a pointer, the pitch and three times the pitch;
// that the compiler does not turn them into a pointer a row, the empty instructions see to.
template <int ROWS, bool BY_ROWS>
struct Factors {
    static constexpr int GROUPS = BY_ROWS ? (ROWS + 3) / 4 : 1;
    const float* group[GROUPS];
    int64_t pitch, thrice;

    Factors(const float* a, int64_t a_pitch) : pitch(a_pitch), thrice(3 * a_pitch) {
        EFL_UNROLL
        for (int g = 0; g < GROUPS; ++g) group[g] = a + 4 * g * a_pitch;
        if (BY_ROWS) asm("" : "+r"(thrice));
    }

    // Row m of the term that is `ahead` after the current one.
    const float* at(int m, int ahead) const {
        if (!BY_ROWS) return group[0] + ahead * pitch + m;
        const float* p = group[m / 4] + ahead;
        return m % 4 == 0 ? p : m % 4 == 1 ? p + pitch : m % 4 == 2 ? p + 2 * pitch : p + thrice;
    }

    void skip(int terms) {
        EFL_UNROLL
        for (int g = 0; g < GROUPS; ++g) {
            group[g] += terms * (BY_ROWS ? 1 : pitch);
            if (BY_ROWS) asm("" : "+r"(group[g]));
        }
    }
};

// The vectors that a tile will read of rows that lie apart, and the copy that it leaves of them.
template <int VECTORS>
struct FarRows {
    const float *soon, *next;  // next: the first row of the tile after this one
    int64_t pitch, left;
    float* keep;

    FarRows(const Tiles& p, const float* tile, float* keep_)
        : soon(tile + AHEAD * p.b_pitch), next(tile + p.b_step), pitch(p.b_pitch), left(p.terms - AHEAD), keep(keep_) {}

    __attribute__((always_inline)) void fetch() {
        EFL_UNROLL
        for (int v = 0; v < VECTORS * W; v += LINE) __builtin_prefetch(soon + v);
        __builtin_prefetch(soon + VECTORS * W - 1);
        soon = --left == 0 ? next : soon + pitch;
    }

    __attribute__((always_inline)) void put(const vf (&x)[VECTORS]) {
        if (!keep) return;
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) store(keep + v * W, x[v]);
        keep += VECTORS * W;
    }
};

template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR>
__attribute__((always_inline)) static inline void add_term(const Factors<ROWS, BY_ROWS>& a, int ahead, const float* b,
                                                           FarRows<VECTORS>& rows, vf (&acc)[ROWS][VECTORS]) {
    vf x[VECTORS];
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) x[v] = load(b + v * W);
    if (FAR) rows.fetch(), rows.put(x);
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        const vf w = set1(*a.at(m, ahead));
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) acc[m][v] = fma(w, x[v], acc[m][v]);
    }
}

template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void begin_tile(const float* start, vf (&acc)[ROWS][VECTORS]) {
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        const vf from = start ? load(start + v * W) : zero();
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) acc[m][v] = from;
    }
}

template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void fetch_tile(const float* c, int64_t pitch) {
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS * W; v += LINE) __builtin_prefetch(c + m * pitch + v, 1);
    }
}

template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void write_chosen(const Tiles& p, float* c, const uint16_t* chosen,
                                                               const vf (&acc)[ROWS][VECTORS]) {
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) store_bits(c + m * p.c_pitch + v * W, acc[m][v], chosen[v]);
    }
}

// Of the last vector, `lanes` lanes count.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void end_tile(const Tiles& p, float* c, int lanes, const uint16_t* chosen,
                                                           vf (&acc)[ROWS][VECTORS]) {
    constexpr int last = VECTORS - 1;
    if (p.add) {
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) {
            EFL_UNROLL
            for (int v = 0; v < VECTORS; ++v) {
                const float* from = c + m * p.c_pitch + v * W;
                acc[m][v] = add(v < last || lanes == W ? load(from) : load_n(from, lanes), acc[m][v]);
            }
        }
    }
    if (chosen) return write_chosen(p, c, chosen, acc);
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        float* to = c + m * p.c_pitch;
        EFL_UNROLL
        for (int v = 0; v < last; ++v) store(to + v * W, acc[m][v]);
        if (lanes == W) store(to + last * W, acc[m][last]);
        else store_n(to + last * W, acc[m][last], lanes);
    }
}

// Terms one at a time, where the operands of two would not fit beside the sums.
template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR>
__attribute__((always_inline)) static inline void add_single_terms(const Tiles& p, const float* b,
                                                                   FarRows<VECTORS>& rows, vf (&acc)[ROWS][VECTORS]) {
    Factors<ROWS, BY_ROWS> a(p.a, p.a_pitch);
    EFL_PRAGMA(GCC unroll 1)
    for (int64_t t = 0; t < p.terms; ++t, b += p.b_pitch, a.skip(1))
        add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, 0, b, rows, acc);
}

template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_grouped(const Tiles& p, const float* tile,
                                                              vf (&acc)[ROWS][VECTORS]) {
    constexpr int64_t FLOAT = sizeof(float);
    const VectorsInSequence<VECTORS> from{p.a, p.a_pitch * FLOAT, tile, p.b_pitch * FLOAT};
    add_terms_in_order(from, p.terms, acc);
}

// Terms side by side, by pairs.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_in_pairs(const Tiles& p, const float* tile,
                                                               vf (&acc)[ROWS][VECTORS]) {
    if (add_pairs(p.a, tile, p.terms, acc) == 0) return;
    const int64_t last = p.terms - 1;
    const Factors<ROWS, false> a(p.a + last * ROWS, ROWS);
    FarRows<VECTORS> rows(p, tile, nullptr);
    add_term<ROWS, VECTORS, false, false>(a, 0, tile + last * VECTORS * W, rows, acc);
}

// How a tile's terms are added: as they come, or as cores want it that execute in order.
enum class Order { FREE, GROUPED, IN_PAIRS };

template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR = false, Order ORDER = Order::FREE>
static void multiply_tiles(const Tiles& p, int64_t count, int64_t lanes) {
    const float *tile = p.b, *start = p.start;
    float *c = p.c, *keep = p.keep;
    const uint16_t* chosen = p.chosen;
    for (; count > 0; --count, tile += p.b_step, c += VECTORS * W, keep += keep ? p.keep_step : 0) {
        vf acc[ROWS][VECTORS];
        begin_tile(start, acc);
        if (start) start += VECTORS * W;
        if (p.terms >= LONG_SUM) fetch_tile<ROWS, VECTORS>(c, p.c_pitch);
        Factors<ROWS, BY_ROWS> a(p.a, p.a_pitch);
        FarRows<VECTORS> rows(p, tile, keep);
        if constexpr (ORDER == Order::IN_PAIRS) {
            add_in_pairs<ROWS, VECTORS>(p, tile, acc);
        } else if constexpr (ORDER == Order::GROUPED) {
            add_grouped<ROWS, VECTORS>(p, tile, acc);
        } else if constexpr (!READS_IN_FMA) {
            add_single_terms<ROWS, VECTORS, BY_ROWS, FAR>(p, tile, rows, acc);
        } else {
            const float* b = tile;
            int64_t t = 0;
            for (; t + 2 <= p.terms; t += 2, b += 2 * p.b_pitch) {
                add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, 0, b, rows, acc);
                add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, 1, b + p.b_pitch, rows, acc);
                a.skip(2);
            }
            if (t < p.terms) add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, 0, b, rows, acc);
        }
        end_tile(p, c, count > 1 ? W : int(lanes), chosen, acc);
        chosen += chosen ? VECTORS : 0;
    }
}

template <int ROWS, int VECTORS>
static void multiply_vectors(const Tiles& p, int64_t vectors, int64_t count, int64_t lanes) {
    if (vectors == VECTORS) {
        if constexpr (IN_PAIRS<ROWS, VECTORS>)
            if (!p.by_rows && p.a_pitch == ROWS && p.b_pitch == VECTORS * W && in_order())
                return multiply_tiles<ROWS, VECTORS, false, false, Order::IN_PAIRS>(p, count, lanes);
        if constexpr (IN_ORDER<ROWS, VECTORS>)
            if (!p.by_rows && in_order())
                return multiply_tiles<ROWS, VECTORS, false, false, Order::GROUPED>(p, count, lanes);
        return p.by_rows ? multiply_tiles<ROWS, VECTORS, true>(p, count, lanes)
                         : multiply_tiles<ROWS, VECTORS, false>(p, count, lanes);
    }
    if constexpr (VECTORS > 1) multiply_vectors<ROWS, VECTORS - 1>(p, vectors, count, lanes);
}

template <int ROWS>
static void multiply_rows(const Tiles& p, int64_t vectors, int64_t count, int64_t lanes) {
    constexpr int VECTORS = vectors_of_tile(ROWS);
    if (!p.b_far) return multiply_vectors<ROWS, VECTORS>(p, vectors, count, lanes);
    return p.by_rows ? multiply_tiles<ROWS, VECTORS, true, true>(p, count, lanes)
                     : multiply_tiles<ROWS, VECTORS, false, true>(p, count, lanes);
}

// `count` tiles of 1 to TILE_ROWS rows and 1 to vectors_of_tile(rows) vectors; of the last one's last vector, `lanes`
// count.
template <int ROWS = TILE_ROWS>
static void multiply(const Tiles& p, int64_t rows, int64_t vectors, int64_t count, int64_t lanes) {
    if (rows == ROWS) return multiply_rows<ROWS>(p, vectors, count, lanes);
    if constexpr (ROWS > 1) multiply<ROWS - 1>(p, rows, vectors, count, lanes);
}
