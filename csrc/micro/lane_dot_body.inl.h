// The function of lane_dot.inl.h: a loop over terms for every shape of a tile.

#if defined(EFL_FMA_BY_LANE)

// TERMS terms of which the right rows' factors are loaded.
template <int TERMS, int RIGHT, int VECTORS>
__attribute__((always_inline)) static inline void add_lanes(const vf (&factors)[RIGHT], const float* left,
                                                            vf (&acc)[RIGHT][VECTORS]) {
    EFL_UNROLL
    for (int t = 0; t < TERMS; ++t) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) {
            const vf x = load(left + (t * VECTORS + v) * W);
            EFL_UNROLL
            for (int k = 0; k < RIGHT; ++k) acc[k][v] = fma_lane(x, factors[k], t, acc[k][v]);
        }
    }
    __asm__ volatile("" : : : "memory");
}

// Run i, added to acc.
template <int RIGHT, int VECTORS>
__attribute__((always_inline)) static inline void add_lane_run(const LaneDots& d, int64_t i,
                                                               vf (&acc)[RIGHT][VECTORS]) {
    const float* right[RIGHT];
    EFL_UNROLL
    for (int k = 0; k < RIGHT; ++k) right[k] = held(d.right[k] + i * d.right_step);
    const float* left = d.left + i * d.left_step;
    const int64_t* const end = d.off + d.quads;
    EFL_PRAGMA(GCC unroll 1)
    for (const int64_t* off = d.off; off != end; ++off, left += W * VECTORS * W) {
        vf factors[RIGHT];
        EFL_UNROLL
        for (int k = 0; k < RIGHT; ++k) factors[k] = load(right[k] + *off);
        add_lanes<W>(factors, left, acc);
    }
    for (int64_t t = 0; t < d.tail; ++t, left += VECTORS * W) {
        vf factors[RIGHT];
        EFL_UNROLL
        for (int k = 0; k < RIGHT; ++k) factors[k] = set1(right[k][d.tail_at + t]);
        add_lanes<1>(factors, left, acc);
    }
}

template <int RIGHT, int VECTORS>
__attribute__((noinline)) static void lane_tile(const LaneDots& d) {
    vf acc[RIGHT][VECTORS];
    EFL_UNROLL
    for (int k = 0; k < RIGHT; ++k) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) acc[k][v] = d.add ? load(d.sums + (k * VECTORS + v) * W) : zero();
    }
    for (int64_t i = 0; i < d.runs; ++i) add_lane_run(d, i, acc);
    EFL_UNROLL
    for (int k = 0; k < RIGHT; ++k) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v) store(d.sums + (k * VECTORS + v) * W, acc[k][v]);
    }
}

template <int VECTORS, int RIGHT>
static void lane_rights(const LaneDots& d, int64_t right) {
    if (right == RIGHT) return lane_tile<RIGHT, VECTORS>(d);
    if constexpr (RIGHT > 1) lane_rights<VECTORS, RIGHT - 1>(d, right);
}

template <int VECTORS>
static void lane_vectors_of(const LaneDots& d, int64_t right) {
    if (d.vectors == VECTORS) return lane_rights<VECTORS, lane_rights_of(VECTORS)>(d, right);
    if constexpr (VECTORS > 1) lane_vectors_of<VECTORS - 1>(d, right);
}

void lane_products(const LaneDots& d, int64_t right) { lane_vectors_of<MAX_LANE_VECTORS>(d, right); }

#else

void lane_products(const LaneDots&, int64_t) {}

#endif
