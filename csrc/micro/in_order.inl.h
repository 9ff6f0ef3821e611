// The terms of a tile's sums for cores that execute in order: the operands of a term are loaded in one group while the
// last word of the term before is still multiplied, and instructions stay where they are written. The sums are those of
// product.inl.h and tile.inl.h in the same order, so the bits are the same. Needs the words load_here and fma_here of
// a tier; without them nothing is IN_ORDER.

#if defined(EFL_WORDS_IN_PLACE)

constexpr int lane_words(int rows) { return (rows + W - 1) / W; }

// Where the operands of a term fit beside those of the next and all sums.
template <int ROWS, int WORDS>
constexpr bool IN_ORDER = ROWS >= W && ROWS >= WORDS && ROWS * WORDS + 2 * lane_words(ROWS) + WORDS + 1 <= REGISTERS;

// Where the terms' factors lie, and their words: side by side, a pitch from term to term; or at the distances of a
// table from a pointer each. Pitches are in bytes.
template <int WORDS>
struct WordsInLine {
    const float* a;
    int64_t a_pitch;
    const float* b;
    int64_t b_pitch;

    static int64_t begin() { return 0; }
    __attribute__((always_inline)) void read(int64_t, vf (&to)[WORDS]) {
        load_here<WORDS>(b, to);
        b = add_here(b, b_pitch);
    }
};

template <int WORDS>
struct WordsByTable {
    const float* a;
    int64_t a_pitch;
    const float* b[WORDS];
    const int64_t* off;  // floats

    int64_t begin() { return next_here(off); }
    __attribute__((always_inline)) void read(int64_t at, vf (&to)[WORDS]) {
        const int64_t bytes = fourfold_here(at);
        EFL_UNROLL
        for (int v = 0; v < WORDS; ++v) to[v] = load_here(b[v], bytes);
    }
};

// The last word of lanes may overlap the one before: nothing past the factors is read.
template <int ROWS, int WORDS>
struct Term {
    static constexpr int LANES = lane_words(ROWS);
    vf a[LANES], b[WORDS];

    static constexpr int first(int word) { return word + 1 < LANES ? word * W : ROWS - W; }

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

    __attribute__((always_inline)) void add_word(int v, vf (&acc)[ROWS][WORDS]) const {
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma_here(b[v], a[m / W], m - first(m / W), acc[m][v]);
    }

    // This term, and while its last word is multiplied, what the next one reads.
    template <class From>
    __attribute__((always_inline)) void add(Term& next, From& from, vf (&acc)[ROWS][WORDS]) const {
        EFL_UNROLL
        for (int v = 0; v + 1 < WORDS; ++v) add_word(v, acc);
        next.read(from);
        add_word(WORDS - 1, acc);
    }

    __attribute__((always_inline)) void add(vf (&acc)[ROWS][WORDS]) const {
        EFL_UNROLL
        for (int v = 0; v < WORDS; ++v) add_word(v, acc);
    }
};

template <class From, int ROWS, int WORDS>
__attribute__((always_inline)) static inline void add_terms_in_order(From from, int64_t terms, vf (&acc)[ROWS][WORDS]) {
    if (terms == 0) return;
    Term<ROWS, WORDS> even, odd;
    even.read(from);
    EFL_PRAGMA(GCC unroll 1)
    for (; terms > 2; terms -= 2) even.add(odd, from, acc), odd.add(even, from, acc);
    if (terms == 1) return even.add(acc);
    even.add(odd, from, acc);
    odd.add(acc);
}

#else

template <int ROWS, int WORDS>
constexpr bool IN_ORDER = false;

// Named where nothing is IN_ORDER, never made.
template <int WORDS>
struct WordsInLine;
template <int WORDS>
struct WordsByTable;
template <class From, int ROWS, int WORDS>
static inline void add_terms_in_order(From from, int64_t terms, vf (&acc)[ROWS][WORDS]);

#endif
