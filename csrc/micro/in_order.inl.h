// The terms of a tile's sums for cores that execute in order: the operands of a term are loaded in one group while the
// last vector of the term before is still multiplied, and instructions stay where they are written. The sums and their
// order are as in product.inl.h and tile.inl.h, so the bits do not differ. The functions load_here and fma_here of an
// instruction set are needed; without them nothing is IN_ORDER.

#if defined(EFL_VECTORS_IN_PLACE)

constexpr int lane_vectors(int rows) { return (rows + W - 1) / W; }

// Where the operands of a term fit beside those of the next and all sums.
template <int ROWS, int VECTORS>
constexpr bool IN_ORDER =
    ROWS >= W && ROWS >= VECTORS && ROWS * VECTORS + 2 * lane_vectors(ROWS) + VECTORS + 1 <= REGISTERS;

// Where the terms' factors lie, and their vectors: side by side, a pitch from term to term; or at the distances of a
// table from a pointer each. Pitches are in bytes.
template <int VECTORS>
struct VectorsInSequence {
    const float* a;
    int64_t a_pitch;
    const float* b;
    int64_t b_pitch;

    static int64_t begin() { return 0; }
    __attribute__((always_inline)) void read(int64_t, vf (&to)[VECTORS]) {
        load_here<VECTORS>(b, to);
        b = add_here(b, b_pitch);
    }
};

template <int VECTORS>
struct VectorsByTable {
    const float* a;
    int64_t a_pitch;
    const float* b[VECTORS];
    const int64_t* off;  // bytes

    int64_t begin() { return next_here(off); }
    __attribute__((always_inline)) void read(int64_t at, vf (&to)[VECTORS]) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) to[v] = load_here(b[v], at);
    }
};

// The last vector of lanes may overlap the one before: nothing past the factors is read.
template <int ROWS, int VECTORS>
struct Term {
    static constexpr int LANES = lane_vectors(ROWS);
    vf a[LANES], b[VECTORS];

    static constexpr int first(int vector) { return vector + 1 < LANES ? vector * W : ROWS - W; }

    template <class From>
    __attribute__((always_inline)) void read(From& from) {
        const int64_t at = from.begin();
        if (ROWS % W == 0) {
            load_here<LANES>(from.a, a);
        } else {
            load_here<LANES - 1>(from.a, a);
            load_here<1>(from.a + ROWS - W, a + LANES - 1);
        }
        from.read(at, b);
        from.a = add_here(from.a, from.a_pitch);
    }

    __attribute__((always_inline)) void add_vector(int v, vf (&acc)[ROWS][VECTORS]) const {
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma_here(b[v], a[m / W], m - first(m / W), acc[m][v]);
    }

    // This term, and while its last vector is multiplied, what the next one reads.
    template <class From>
    __attribute__((always_inline)) void add(Term& next, From& from, vf (&acc)[ROWS][VECTORS]) const {
        EFL_UNROLL
        for (int v = 0; v + 1 < VECTORS; ++v) add_vector(v, acc);
        next.read(from);
        add_vector(VECTORS - 1, acc);
    }

    __attribute__((always_inline)) void add(vf (&acc)[ROWS][VECTORS]) const {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) add_vector(v, acc);
    }
};

template <class From, int ROWS, int VECTORS>
__attribute__((always_inline)) static inline void add_terms_in_order(From from, int64_t terms,
                                                                     vf (&acc)[ROWS][VECTORS]) {
    if (terms == 0) return;
    Term<ROWS, VECTORS> even, odd;
    even.read(from);
    EFL_PRAGMA(GCC unroll 1)
    for (; terms > 2; terms -= 2) even.add(odd, from, acc), odd.add(even, from, acc);
    if (terms == 1) return even.add(acc);
    even.add(odd, from, acc);
    odd.add(acc);
}

#else

template <int ROWS, int VECTORS>
constexpr bool IN_ORDER = false;

// Named where nothing is IN_ORDER, never made.
template <int VECTORS>
struct VectorsInSequence;
template <int VECTORS>
struct VectorsByTable;
template <class From, int ROWS, int VECTORS>
static inline void add_terms_in_order(From from, int64_t terms, vf (&acc)[ROWS][VECTORS]);

#endif
