// The terms of a tile's sums where a multiply-add reads one lane of a vector: four factors take one load, and two
// terms' factors lie side by side. The sums and their order are as in product.inl.h and tile.inl.h. Vectors are loaded
// one by one while sums, factors and no others are in registers, and no load moves from one pair of terms to another:
// compilers that moved them kept sums in memory. Needs fma_lane of an instruction set; without it nothing is BY_LANES.

#if defined(EFL_FMA_BY_LANE)

constexpr bool BY_LANES = true;

// Adds TERMS terms, whose factors lie side by side: the last vector of factors may reach past them. vector(term, v):
// the vector that a term's factors multiply.
template <int TERMS, int ROWS, int VECTORS, class Vectors>
__attribute__((always_inline)) static inline void add_packed(const float* a, const Vectors& vector,
                                                             vf (&acc)[ROWS][VECTORS]) {
    vf factors[(TERMS * ROWS + W - 1) / W];
    EFL_UNROLL
    for (int i = 0; i * W < TERMS * ROWS; ++i) factors[i] = load(a + i * W);
    EFL_UNROLL
    for (int t = 0; t < TERMS; ++t) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) {
            const vf x = vector(t, v);
            EFL_UNROLL
            for (int m = 0; m < ROWS; ++m)
                acc[m][v] = fma_lane(x, factors[(t * ROWS + m) / W], (t * ROWS + m) % W, acc[m][v]);
        }
    }
    __asm__ volatile("" : : : "memory");
}

// Adds a term of at least W factors; nothing past them is read.
template <int ROWS, int VECTORS, class Vectors>
__attribute__((always_inline)) static inline void add_apart(const float* a, const Vectors& vector,
                                                            vf (&acc)[ROWS][VECTORS]) {
    static_assert(ROWS >= W);
    const auto first = [](int i) { return i * W + W <= ROWS ? i * W : ROWS - W; };
    vf factors[(ROWS + W - 1) / W];
    EFL_UNROLL
    for (int i = 0; i * W < ROWS; ++i) factors[i] = load(a + first(i));
    EFL_UNROLL
    for (int v = 0; v < VECTORS; ++v) {
        const vf x = vector(v);
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma_lane(x, factors[m / W], m - first(m / W), acc[m][v]);
    }
    __asm__ volatile("" : : : "memory");
}

#else

constexpr bool BY_LANES = false;

// Named where nothing is BY_LANES, never made.
template <int TERMS, int ROWS, int VECTORS, class Vectors>
static inline void add_packed(const float* a, const Vectors& vector, vf (&acc)[ROWS][VECTORS]);
template <int ROWS, int VECTORS, class Vectors>
static inline void add_apart(const float* a, const Vectors& vector, vf (&acc)[ROWS][VECTORS]);

#endif
