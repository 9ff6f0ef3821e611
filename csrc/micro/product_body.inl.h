// The function of product.inl.h: a loop over tiles for every shape of a tile.

// All terms of one tile, whose vectors begin at b, as cores want it that execute in order.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_grouped(const Product& p, const float* const (&b)[VECTORS],
                                                              vf (&acc)[ROWS][VECTORS]) {
    VectorsByTable<VECTORS> from{p.a, ROWS * int64_t(sizeof(float)), {}, p.off};
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) from.b[v] = b[v];
    add_terms_in_order(from, p.terms, acc);
}

// The same by four terms.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_in_quads(Product p, const float* const (&b)[VECTORS],
                                                               vf (&acc)[ROWS][VECTORS]) {
    const int64_t left = add_quads(p.a, b, p.off, p.terms, acc), done = p.terms - left;
    if (left == 0) return;
    p.a += done * ROWS, p.off += done, p.terms = left;
    add_grouped<ROWS, VECTORS>(p, b, acc);
}

// The same on other cores.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_by_lanes(const Product& p, const float* const (&b)[VECTORS],
                                                               vf (&acc)[ROWS][VECTORS]) {
    const float* a = p.a;
    const int64_t *off = p.off, *const quads = off + p.terms / 4 * 4;
    const auto pair = [&](int64_t t) __attribute__((always_inline)) {
        add_packed<2>(a + t * ROWS, [&](int term, int v) { return load(vector_at(b[v], off[t + term])); }, acc);
    };
    EFL_PRAGMA(GCC unroll 1)
    for (; off != quads; off += 4, a += 4 * ROWS) pair(0), pair(2);
    if (p.terms % 4 > 1) pair(0), off += 2, a += 2 * ROWS;
    if (p.terms % 2) add_packed<1>(a, [&](int, int v) { return load(vector_at(b[v], *off)); }, acc);
}

// `tiles` neighbouring tiles of VECTORS vectors each. Terms are taken two at a time: on Zen 3 that is 93 to 98 % of the
// peak rate on long sums, and 60 to 90 % with two rows; a call per run of tiles instead of per tile is a third of a sum
// of four terms.
template <int ROWS, int VECTORS, bool GROUPED = false>
static void outer(const Product& whole, int64_t tiles) {
    const Product p = whole;
    // Where a multiply-add reads a lane, a processor has registers for the rows, too.
    float* rows[ROWS];
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) rows[m] = BY_LANES ? p.c + p.row[m] : nullptr;
    const auto row = [&](int m, int64_t to) { return BY_LANES ? rows[m] + to : p.c + to + p.row[m]; };
    for (const Vector* vector = p.vectors; tiles > 0; --tiles, vector += VECTORS) {
        vf acc[ROWS][VECTORS];
        const float* b[VECTORS];
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) {
            b[v] = p.b + vector[v].from;
            EFL_UNROLL
            for (int m = 0; m < ROWS; ++m)
                acc[m][v] = p.start ? set1(p.start[m]) : load_n(row(m, vector[v].to), int(vector[v].lanes));
        }
        if constexpr (GROUPED && IN_QUADS<ROWS, VECTORS>) {
            add_in_quads<ROWS, VECTORS>(p, b, acc);
        } else if constexpr (GROUPED) {
            add_grouped<ROWS, VECTORS>(p, b, acc);
        } else if constexpr (BY_LANES) {
            add_by_lanes<ROWS, VECTORS>(p, b, acc);
        } else {
            const float* a = p.a;
            EFL_PRAGMA(GCC unroll 2)
            for (int64_t t = 0; t < p.terms; ++t, a += ROWS) {
                const int64_t off = p.off[t];
                if (ROWS >= VECTORS) {  // keep the shorter operand in registers
                    vf x[VECTORS];
                    EFL_UNROLL
                    for (int v = 0; v < VECTORS; ++v) x[v] = load(b[v] + off);
                    EFL_UNROLL
                    for (int m = 0; m < ROWS; ++m) {
                        const vf w = set1(a[m]);
                        EFL_UNROLL
                        for (int v = 0; v < VECTORS; ++v) acc[m][v] = fma(w, x[v], acc[m][v]);
                    }
                } else {
                    vf w[ROWS];
                    EFL_UNROLL
                    for (int m = 0; m < ROWS; ++m) w[m] = set1(a[m]);
                    EFL_UNROLL
                    for (int v = 0; v < VECTORS; ++v) {
                        const vf x = load(b[v] + off);
                        EFL_UNROLL
                        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma(w[m], x, acc[m][v]);
                    }
                }
            }
        }
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) {
            const int64_t to = vector[v].to;
            const int lanes = int(vector[v].lanes);
            if (lanes == W) {
                EFL_UNROLL
                for (int m = 0; m < ROWS; ++m) store(row(m, to), acc[m][v]);
            } else {
                EFL_UNROLL
                for (int m = 0; m < ROWS; ++m) store_n(row(m, to), acc[m][v], lanes);
            }
        }
    }
}

// Tiles of 1 to VECTORS vectors.
template <int ROWS, int VECTORS>
static void outer_vectors(const Product& p, int64_t vectors, int64_t tiles) {
    if (vectors == VECTORS) {
        if constexpr (IN_ORDER<ROWS, VECTORS>)
            if (in_order()) return outer<ROWS, VECTORS, true>(p, tiles);
        return outer<ROWS, VECTORS>(p, tiles);
    }
    if constexpr (VECTORS > 1) outer_vectors<ROWS, VECTORS - 1>(p, vectors, tiles);
}

template <int ROWS>
static void outer_rows(Product p, int64_t rows, int64_t vectors) {
    if (rows == ROWS) {
        constexpr int widest = vectors_per_tile(ROWS);
        const int64_t most = IN_QUADS<ROWS, VECTORS_IN_QUADS> && in_order() ? VECTORS_IN_QUADS : widest;
        if (vectors <= most) return outer_vectors<ROWS, widest>(p, vectors, 1);
        const int64_t tiles = (vectors + most - 1) / most, larger = vectors % tiles, size = vectors / tiles;
        outer_vectors<ROWS, widest>(p, size + 1, larger);
        p.vectors += larger * (size + 1);
        outer_vectors<ROWS, widest>(p, size, tiles - larger);
    } else if constexpr (ROWS > 1) {
        outer_rows<ROWS - 1>(p, rows, vectors);
    }
}

void outer_product(const Product& product, int64_t rows, int64_t vectors) {
    outer_rows<MAX_ROWS>(product, rows, vectors);
}
