// The terms of a tile's sums for cores that execute in order, two terms at once, where rows of 5 to 8 factors and two
// vectors lie side by side from term to term. Such cores wait at every load that follows a multiply-add, however many
// vectors it brings: here one load brings the factors of two terms and one their vectors, both a pair of terms before
// they are multiplied. The sums and their order are as in tile.inl.h, so the bits do not differ. Needs load_together of
// an instruction set; without it nothing is IN_PAIRS. Where operands do not lie so, see in_order.inl.h.

#if defined(EFL_LOADS_TOGETHER)

constexpr int VECTORS_IN_PAIRS = 2;
constexpr int vectors_of_two(int rows) { return lane_vectors(2 * rows); }

// Two pairs of terms' operands and all sums are in registers.
template <int ROWS, int VECTORS>
constexpr bool IN_PAIRS =
    VECTORS == VECTORS_IN_PAIRS && ROWS > W && ROWS * VECTORS + 2 * (vectors_of_two(ROWS) + 2 * VECTORS) <= REGISTERS;

// Where the next pair of terms lies, and the one after it: pointers of their own, so that one statement moves them.
template <int ROWS, int VECTORS>
struct PairsInSequence {
    static constexpr int64_t A_PAIR = 2 * ROWS * sizeof(float), B_PAIR = 2 * VECTORS * W * sizeof(float);
    const float *a, *b, *a_after, *b_after;

    PairsInSequence(const float* a_, const float* b_)
        : a(a_), b(b_), a_after(add_here(a_, A_PAIR)), b_after(add_here(b_, B_PAIR)) {}

    __attribute__((always_inline)) void move() {
        a = add_here(a, 2 * A_PAIR), b = add_here(b, 2 * B_PAIR);
        a_after = add_here(a_after, 2 * A_PAIR), b_after = add_here(b_after, 2 * B_PAIR);
    }
};

// The last vector of factors may reach past them, by less than a vector.
template <int ROWS, int VECTORS>
struct Pair {
    static constexpr int FMAS = 2 * ROWS * VECTORS;
    vf a[vectors_of_two(ROWS)], b[2 * VECTORS];

    __attribute__((always_inline)) void read_a(const float* from) { load_together<vectors_of_two(ROWS)>(from, a); }
    __attribute__((always_inline)) void read_b(const float* from) { load_together<2 * VECTORS>(from, b); }

    // The multiply-adds [FIRST, LAST) of this pair: by terms, vectors and rows.
    template <int FIRST, int LAST>
    __attribute__((always_inline)) void add(vf (&acc)[ROWS][VECTORS]) const {
        EFL_UNROLL
        for (int i = FIRST; i < LAST; ++i) {
            const int term = i / (ROWS * VECTORS), v = i / ROWS % VECTORS, m = i % ROWS, at = term * ROWS + m;
            acc[m][v] = fma_here(b[term * VECTORS + v], a[at / W], at % W, acc[m][v]);
        }
    }

    // This pair, and while it is multiplied, what the next one reads: loads far enough from each other.
    __attribute__((always_inline)) void add(Pair& next, const float* a_next, const float* b_next,
                                            vf (&acc)[ROWS][VECTORS]) const {
        add<0, FMAS / 4>(acc);
        next.read_a(a_next);
        add<FMAS / 4, FMAS / 8 * 5>(acc);
        next.read_b(b_next);
        add<FMAS / 8 * 5, FMAS>(acc);
    }
};

// Some terms, from the first on: how many of them are left, fewer than two.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline int64_t add_pairs(const float* a, const float* b, int64_t terms,
                                                               vf (&acc)[ROWS][VECTORS]) {
    const int64_t pairs = terms / 2, turns = (pairs - 1) / 2;
    if (pairs == 0) return terms;
    Pair<ROWS, VECTORS> even, odd;
    even.read_a(a), even.read_b(b);
    PairsInSequence<ROWS, VECTORS> from(a + 2 * ROWS, b + 2 * VECTORS * W);
    // Counted by a pointer: what counts apart from it, compilers put where it waits for a multiply-add.
    const float* const end = from.a + turns * 4 * ROWS;
    EFL_PRAGMA(GCC unroll 1)
    while (from.a != end) {
        even.add(odd, from.a, from.b, acc);
        odd.add(even, from.a_after, from.b_after, acc);
        from.move();
    }
    if (pairs % 2 == 0) even.add(odd, from.a, from.b, acc), even = odd;
    even.template add<0, Pair<ROWS, VECTORS>::FMAS>(acc);
    return terms % 2;
}

#else

constexpr int VECTORS_IN_PAIRS = 0;
template <int ROWS, int VECTORS>
constexpr bool IN_PAIRS = false;

// Named where nothing is IN_PAIRS, never made.
template <int ROWS, int VECTORS>
static inline int64_t add_pairs(const float* a, const float* b, int64_t terms, vf (&acc)[ROWS][VECTORS]);

#endif
