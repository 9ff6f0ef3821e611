// The function of tile.inl.h: a loop over tiles for every shape of a tile.

constexpr int64_t LONG_SUM = 32;  // terms, from which it pays to fetch the tile's position in c ahead
// Terms, by which rows of b that lie far apart are fetched ahead: some 48 cycles.
constexpr int64_t AHEAD = REGISTERS < 32 ? 8 : 4;

// Whether a's two ways to lie have a function each. Where a multiply-add reads one float of memory, one function serves
// both: it reads rows at a distance, which is 1 where they are side by side. NEON reads rows that are side by side by
// vectors.
constexpr bool SIDE_BY_SIDE_APART = !READS_IN_FMA;

// Where a lies. Rows come in groups of four, which x86 addresses by a pointer, the pitch and three times the pitch;
// that the compiler does not turn them into a pointer a row, the empty instructions see to.
template <int ROWS, bool BY_ROWS>
struct Factors {
    static constexpr int GROUPS = BY_ROWS ? (ROWS + 3) / 4 : 1;
    const float* group[GROUPS];
    int64_t pitch, thrice, step;  // between rows; between terms

    explicit Factors(const Tiles& p)
        : Factors(p.a, p.by_rows || !BY_ROWS ? p.a_pitch : 1, BY_ROWS && p.by_rows ? 1 : p.a_pitch) {}
    Factors(const float* a, int64_t pitch_, int64_t step_) : pitch(pitch_), thrice(3 * pitch_), step(step_) {
        EFL_UNROLL
        for (int g = 0; g < GROUPS; ++g) group[g] = a + 4 * g * pitch;
        if (BY_ROWS) asm("" : "+r"(thrice));
    }

    // Row m of the current term.
    const float* at(int m) const {
        if (!BY_ROWS) return group[0] + m;
        const float* p = group[m / 4];
        return m % 4 == 0 ? p : m % 4 == 1 ? p + pitch : m % 4 == 2 ? p + 2 * pitch : p + thrice;
    }

    void skip() {
        EFL_UNROLL
        for (int g = 0; g < GROUPS; ++g) {
            group[g] += step;
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

// A term whose factors stay in registers while its vectors pass by: not all of many vectors have registers.
template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR>
__attribute__((always_inline)) static inline void add_vectors(const Factors<ROWS, BY_ROWS>& a, const float* b,
                                                              FarRows<VECTORS>& rows, vf (&acc)[ROWS][VECTORS]) {
    vf w[ROWS];
    if (FAR) rows.fetch();
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) w[m] = set1(*a.at(m));
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        const vf x = load(b + v * W);
        if (FAR && rows.keep) store(rows.keep + v * W, x);
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma(w[m], x, acc[m][v]);
    }
    if (FAR && rows.keep) rows.keep += VECTORS * W;
}

template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR>
__attribute__((always_inline)) static inline void add_term(const Factors<ROWS, BY_ROWS>& a, const float* b,
                                                           FarRows<VECTORS>& rows, vf (&acc)[ROWS][VECTORS]) {
    if constexpr (REGISTERS < 32 && ROWS < VECTORS) return add_vectors<ROWS, VECTORS, BY_ROWS, FAR>(a, b, rows, acc);
    vf x[VECTORS];
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) x[v] = load(b + v * W);
    if (FAR) rows.fetch(), rows.put(x);
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        const vf w = set1(*a.at(m));
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
    const int64_t pitch = p.c_pitch;
    if (p.add) {
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) {
            EFL_UNROLL
            for (int v = 0; v < VECTORS; ++v) {
                const float* from = c + m * pitch + v * W;
                acc[m][v] = add(v < last || lanes == W ? load(from) : load_n(from, lanes), acc[m][v]);
            }
        }
    }
    if (chosen) return write_chosen(p, c, chosen, acc);
    float* to = c;
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m, to += pitch) {
        EFL_UNROLL
        for (int v = 0; v < last; ++v) store(to + v * W, acc[m][v]);
        if (lanes == W) store(to + last * W, acc[m][last]);
        else store_n(to + last * W, acc[m][last], lanes);
    }
}

// Factors by columns, whose vectors are loaded whole: two terms at once where they lie side by side.
template <int ROWS, int VECTORS, bool FAR>
__attribute__((always_inline)) static inline void add_by_lanes(const Tiles& p, const float* b, FarRows<VECTORS>& rows,
                                                               vf (&acc)[ROWS][VECTORS]) {
    const float* a = p.a;
    const int64_t step = p.a_pitch, next = p.b_pitch;
    int64_t left = p.terms;
    if (!FAR && step == ROWS) {
        EFL_PRAGMA(GCC unroll 1)
        for (; left >= 2 + ROWS % 2; left -= 2, a += 2 * ROWS, b += 2 * next)
            add_packed<2>(a, [&](int term, int v) { return load(b + term * next + v * W); }, acc);
    }
    const auto one = [&]() __attribute__((always_inline)) {
        if (FAR) rows.fetch();
        vf x[VECTORS];
        add_apart(a, [&](int v) { return x[v] = load(b + v * W); }, acc);
        if (FAR) rows.fetch(), rows.put(x);
        a += step, b += next;
    };
    if constexpr (!FAR) {
        EFL_PRAGMA(GCC unroll 1)
        for (; left >= 2; left -= 2) one(), one();
    }
    EFL_PRAGMA(GCC unroll 1)
    for (; left > 0; --left) one();
}

// Whether the operands of two terms do not fit beside the sums: compilers then keep sums in memory. Two terms of the
// largest tile are faster all the same where a copy is kept, whose reads wait for memory.
template <bool FAR>
constexpr bool CROWDED = FAR && REGISTERS < 32;

// Terms one at a time, where the operands of two would not fit beside the sums.
template <int ROWS, int VECTORS, bool BY_ROWS, bool FAR>
__attribute__((always_inline)) static inline void add_single_terms(const Tiles& p, const float* b,
                                                                   FarRows<VECTORS>& rows, vf (&acc)[ROWS][VECTORS]) {
    Factors<ROWS, BY_ROWS> a(p);
    EFL_PRAGMA(GCC unroll 1)
    for (int64_t t = 0; t < p.terms; ++t, b += p.b_pitch, a.skip())
        add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, b, rows, acc);
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
    const Factors<ROWS, false> a(p.a + last * ROWS, ROWS, ROWS);
    FarRows<VECTORS> rows(p, tile, nullptr);
    add_term<ROWS, VECTORS, false, false>(a, tile + last * VECTORS * W, rows, acc);
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
        Factors<ROWS, BY_ROWS> a(p);
        FarRows<VECTORS> rows(p, tile, keep);
        if constexpr (ORDER == Order::IN_PAIRS) {
            add_in_pairs<ROWS, VECTORS>(p, tile, acc);
        } else if constexpr (ORDER == Order::GROUPED) {
            add_grouped<ROWS, VECTORS>(p, tile, acc);
        } else if constexpr (BY_LANES && !BY_ROWS && ROWS >= W) {
            add_by_lanes<ROWS, VECTORS, FAR>(p, tile, rows, acc);
        } else if constexpr (!READS_IN_FMA || (CROWDED<FAR> && ROWS < TILE_ROWS)) {
            add_single_terms<ROWS, VECTORS, BY_ROWS, FAR>(p, tile, rows, acc);
        } else if (CROWDED<FAR> && !keep) {
            add_single_terms<ROWS, VECTORS, BY_ROWS, FAR>(p, tile, rows, acc);
        } else {
            const float* b = tile;
            int64_t t = 0;
            for (; t + 2 <= p.terms; t += 2, b += 2 * p.b_pitch) {
                add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, b, rows, acc);
                a.skip();
                add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, b + p.b_pitch, rows, acc);
                a.skip();
            }
            if (t < p.terms) add_term<ROWS, VECTORS, BY_ROWS, FAR>(a, b, rows, acc);
        }
        end_tile(p, c, count > 1 ? W : int(lanes), chosen, acc);
        chosen += chosen ? VECTORS : 0;
    }
}

template <int ROWS, int VECTORS, bool FAR>
static void multiply_either(const Tiles& p, int64_t count, int64_t lanes) {
    if constexpr (SIDE_BY_SIDE_APART)
        if (!p.by_rows) return multiply_tiles<ROWS, VECTORS, false, FAR>(p, count, lanes);
    multiply_tiles<ROWS, VECTORS, true, FAR>(p, count, lanes);
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
        return multiply_either<ROWS, VECTORS, false>(p, count, lanes);
    }
    if constexpr (VECTORS > 1) multiply_vectors<ROWS, VECTORS - 1>(p, vectors, count, lanes);
}

template <int ROWS>
static void multiply_rows(const Tiles& p, int64_t vectors, int64_t count, int64_t lanes) {
    constexpr int VECTORS = vectors_of_tile(ROWS);
    if (!p.b_far) return multiply_vectors<ROWS, VECTORS>(p, vectors, count, lanes);
    return multiply_either<ROWS, VECTORS, true>(p, count, lanes);
}

template <int ROWS>
static void multiply_up_to(const Tiles& p, int64_t rows, int64_t vectors, int64_t count, int64_t lanes) {
    if (rows == ROWS) return multiply_rows<ROWS>(p, vectors, count, lanes);
    if constexpr (ROWS > 1) multiply_up_to<ROWS - 1>(p, rows, vectors, count, lanes);
}

void multiply(const Tiles& p, int64_t rows, int64_t vectors, int64_t count, int64_t lanes) {
    multiply_up_to<TILE_ROWS>(p, rows, vectors, count, lanes);
}
