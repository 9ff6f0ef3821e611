// The terms of a tile's sums for cores that execute in order, four terms at once, where 5 to 8 factors lie side by side
// from term to term and their two vectors are found by a table. Such cores wait at every group of loads that follows a
// multiply-add: the vectors of four terms are one group, and the factors of two terms one load. The sums and their
// order are as in product.inl.h, so the bits do not differ. Needs load_together of an instruction set; without it
// nothing is IN_QUADS.

#if defined(EFL_LOADS_TOGETHER)

constexpr int VECTORS_IN_QUADS = 2;
constexpr int QUAD = 4;

// The factors of two pairs of terms, the vectors of four terms and all sums are in registers.
constexpr bool fit_in_quads(int rows, int vectors) {
    const int needed = (rows + QUAD) * vectors + 2 * vectors_of_two(rows);
    return vectors == VECTORS_IN_QUADS && rows > W && needed <= REGISTERS;
}

template <int ROWS, int VECTORS>
constexpr bool IN_QUADS = fit_in_quads(ROWS, VECTORS);

// Where four terms' vectors lie, in bytes.
struct QuadOffsets {
    int64_t at[QUAD];

    template <int QUADS = 0>  // that lie before them
    __attribute__((always_inline)) void read(const int64_t* off) {
        __asm__ volatile("ldp %0, %1, [%4, %5]\n\tldp %2, %3, [%4, %6]"
                         : "=&r"(at[0]), "=&r"(at[1]), "=&r"(at[2]), "=&r"(at[3])
                         : "r"(off), "i"(QUADS * 32), "i"(QUADS * 32 + 16)
                         : "memory");
    }
};

template <int COUNT>
struct Quads {
    static constexpr int value = COUNT;
};

template <int ROWS, int VECTORS>
struct Quad {
    static constexpr int FACTORS = vectors_of_two(ROWS);
    vf first[FACTORS], second[FACTORS], b[QUAD][VECTORS];

    __attribute__((always_inline)) void read_vectors(const float* const (&from)[VECTORS], const QuadOffsets& off) {
        EFL_UNROLL
        for (int t = 0; t < QUAD; ++t) {
            EFL_UNROLL
            for (int v = 0; v < VECTORS; ++v) b[t][v] = load_here(from[v], off.at[t]);
        }
    }

    // Term t of the four: the second of a pair of terms where t is odd.
    template <int T>
    __attribute__((always_inline)) void add(vf (&acc)[ROWS][VECTORS]) const {
        const vf(&a)[FACTORS] = T < 2 ? first : second;
        EFL_UNROLL
        for (int i = 0; i < ROWS * VECTORS; ++i) {
            const int v = i / ROWS, m = i % ROWS, at = T % 2 * ROWS + m;
            acc[m][v] = fma_here(b[T][v], a[at / W], at % W, acc[m][v]);
        }
    }
};

// Some terms, from the first on: how many of them are left, fewer than four.
template <int ROWS, int VECTORS>
__attribute__((always_inline)) static inline int64_t add_quads(const float* a, const float* const (&b)[VECTORS],
                                                               const int64_t* off, int64_t terms,
                                                               vf (&acc)[ROWS][VECTORS]) {
    constexpr int64_t PAIR = 2 * ROWS * sizeof(float);
    constexpr int FACTORS = Quad<ROWS, VECTORS>::FACTORS;
    if (terms < QUAD) return terms;
    const int64_t* const last = off + (terms / QUAD - 1) * QUAD;
    const float *later = add_here(a, PAIR), *next = add_here(a, 2 * PAIR);
    Quad<ROWS, VECTORS> quad;
    QuadOffsets where;
    load_together<FACTORS>(a, quad.first);
    where.read(off);
    quad.read_vectors(b, where);
    const auto add_three = [&]() __attribute__((always_inline)) {
        quad.template add<0>(acc);
        load_together<FACTORS>(later, quad.second);
        quad.template add<1>(acc), quad.template add<2>(acc);
    };
    const auto add_last = [&]() __attribute__((always_inline)) {
        load_together<FACTORS>(next, quad.first);
        quad.template add<3>(acc);
        quad.read_vectors(b, where);
    };
    if (off != last) {
        where.read(off + QUAD);
        const int64_t* ahead = off + 2 * QUAD;  // whose distances are read while the quad before them is loaded
        const auto step = [&](auto quads) __attribute__((always_inline)) {
            add_three(), add_last();
            where.template read<decltype(quads)::value>(ahead);
            next = add_here(next, 2 * PAIR), later = add_here(later, 2 * PAIR);
        };
        EFL_PRAGMA(GCC unroll 1)
        for (const int64_t* const most = last - 7 * QUAD; ahead <= most; ahead += 8 * QUAD)
            step(Quads<0>{}), step(Quads<1>{}), step(Quads<2>{}), step(Quads<3>{}), step(Quads<4>{}), step(Quads<5>{}),
                step(Quads<6>{}), step(Quads<7>{});
        EFL_PRAGMA(GCC unroll 1)
        for (; ahead <= last; ahead += QUAD) step(Quads<0>{});
        add_three(), add_last();
        later = add_here(later, 2 * PAIR);
    }
    add_three();
    quad.template add<3>(acc);
    return terms % QUAD;
}

#else

constexpr int VECTORS_IN_QUADS = 0;
template <int ROWS, int VECTORS>
constexpr bool IN_QUADS = false;

// Named where nothing is IN_QUADS, never made.
template <int ROWS, int VECTORS>
static inline int64_t add_quads(const float* a, const float* const (&b)[VECTORS], const int64_t* off, int64_t terms,
                                vf (&acc)[ROWS][VECTORS]);

#endif
