// The taps of depthwise convolutions, whose lanes are channels: a tap is a distance between vectors. Sums over taps at
// each position, and for each tap sums over positions.

constexpr int64_t VECTOR_BYTES = W * int64_t(sizeof(float));

// The sums over all taps at VECTORS positions.
template <int VECTORS>
static inline void tap_vectors(const float* from, const int64_t* off, const float* weight, int64_t taps, vf start,
                               float* to) {
    vf s[VECTORS];
    EFL_UNROLL
    for (int k = 0; k < VECTORS; ++k) s[k] = start;
    for (int64_t t = 0; t < taps; ++t) {
        const vf w = load(weight + t * W);
        const float* p = vector_at(from, off[t]);
        EFL_UNROLL
        for (int k = 0; k < VECTORS; ++k) s[k] = fma(w, load(p + k * W), s[k]);
    }
    EFL_UNROLL
    for (int k = 0; k < VECTORS; ++k) store(to + k * W, s[k]);
}

// The same where taps lie in threes, each STEP vectors after the one before: what three taps meet is loaded once.
template <int VECTORS, int STEP>
static inline void tap_threes(const float* from, const int64_t* off, const float* weight, int64_t taps, vf start,
                              float* to) {
    vf s[VECTORS];
    EFL_UNROLL
    for (int k = 0; k < VECTORS; ++k) s[k] = start;
    EFL_PRAGMA(GCC unroll 1)
    for (int64_t t = 0; t < taps; t += 3) {
        const float* p = vector_at(from, off[STEP > 0 ? t : t + 2]);
        vf x[VECTORS + 2], w[3];
        EFL_UNROLL
        for (int k = 0; k < VECTORS + 2; ++k) x[k] = load(p + k * W);
        EFL_UNROLL
        for (int j = 0; j < 3; ++j) w[j] = load(weight + (t + j) * W);
        EFL_UNROLL
        for (int j = 0; j < 3; ++j) {
            EFL_UNROLL
            for (int k = 0; k < VECTORS; ++k) s[k] = fma(w[j], x[k + (STEP > 0 ? j : 2 - j)], s[k]);
        }
    }
    EFL_UNROLL
    for (int k = 0; k < VECTORS; ++k) store(to + k * W, s[k]);
}

// The steps of taps that lie in threes: 1 or -1, or 0.
static int64_t step_of_threes(const int64_t* off, int64_t taps) {
    if (READS_IN_FMA || taps == 0 || taps % 3) return 0;
    const int64_t step = off[1] - off[0];
    for (int64_t t = 0; t < taps; t += 3)
        if (off[t + 1] - off[t] != step || off[t + 2] - off[t + 1] != step) return 0;
    return step == VECTOR_BYTES ? 1 : step == -VECTOR_BYTES ? -1 : 0;
}

constexpr int64_t ABREAST_POSITIONS = 8;

// A run of positions by eight, the last of which overlap those before.
template <class Eight>
__attribute__((always_inline)) static inline void each_eight(int64_t n, const Eight& eight) {
    for (int64_t next = 0; next < n; next += ABREAST_POSITIONS) eight(least(next, n - ABREAST_POSITIONS) * W);
}

template <int STEP>
static void run_of_threes(const float* from, const int64_t* off, const float* weight, int64_t taps, vf start, int64_t n,
                          float* to) {
    each_eight(n, [&](int64_t i) { tap_threes<ABREAST_POSITIONS, STEP>(from + i, off, weight, taps, start, to + i); });
}

// The same for three threes, whose weights stay in registers.
template <int STEP>
static void run_of_nine(const float* from, const int64_t* off, const float* weight, vf start, int64_t n, float* to) {
    constexpr int EIGHT = ABREAST_POSITIONS;
    const float* row[3];
    vf w[9];
    EFL_UNROLL
    for (int r = 0; r < 3; ++r) row[r] = vector_at(from, off[STEP > 0 ? 3 * r : 3 * r + 2]);
    EFL_UNROLL
    for (int t = 0; t < 9; ++t) w[t] = load(weight + t * W);
    each_eight(n, [&](int64_t i) {
        vf s[EIGHT];
        EFL_UNROLL
        for (int k = 0; k < EIGHT; ++k) s[k] = start;
        EFL_UNROLL
        for (int r = 0; r < 3; ++r) {
            vf x[EIGHT + 2];
            EFL_UNROLL
            for (int k = 0; k < EIGHT + 2; ++k) x[k] = load(row[r] + i + k * W);
            EFL_UNROLL
            for (int j = 0; j < 3; ++j) {
                EFL_UNROLL
                for (int k = 0; k < EIGHT; ++k) s[k] = fma(w[3 * r + j], x[k + (STEP > 0 ? j : 2 - j)], s[k]);
            }
        }
        EFL_UNROLL
        for (int k = 0; k < EIGHT; ++k) store(to + i + k * W, s[k]);
    });
}

template <int STEP>
static void run_of_taps(const float* from, const int64_t* off, const float* weight, int64_t taps, vf start, int64_t n,
                        float* to) {
    if (taps == 9) run_of_nine<STEP>(from, off, weight, start, n, to);
    else run_of_threes<STEP>(from, off, weight, taps, start, n, to);
}

static void tap_run(const float* from, const int64_t* off, const float* weight, int64_t taps, vf start, int64_t n,
                    float* to) {
    int64_t i = 0;
    if constexpr (!READS_IN_FMA) {
        const int64_t step = n < ABREAST_POSITIONS ? 0 : step_of_threes(off, taps);
        if (step > 0) return run_of_taps<1>(from, off, weight, taps, start, n, to);
        if (step < 0) return run_of_taps<-1>(from, off, weight, taps, start, n, to);
    }
    for (; i + 8 <= n; i += 8) tap_vectors<8>(from + i * W, off, weight, taps, start, to + i * W);
    for (; i + 4 <= n; i += 4) tap_vectors<4>(from + i * W, off, weight, taps, start, to + i * W);
    for (; i < n; ++i) tap_vectors<1>(from + i * W, off, weight, taps, start, to + i * W);
}

constexpr int64_t SUMMED_TAPS = 9;  // whose sums stay in registers
// sums[t] += dy[i] x[off[t] + i], vectors, over a run of n positions.
template <int TAPS>
static void add_tap_products(const float* x, const float* dy, int64_t n, const int64_t* off, vf* sums) {
    vf s[TAPS];
    const float* p[TAPS];
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) s[t] = sums[t], p[t] = vector_at(x, off[t]);
    for (int64_t i = 0; i < n * W; i += W) {
        const vf d = load(dy + i);
        EFL_UNROLL
        for (int t = 0; t < TAPS; ++t) s[t] = fma(d, load(p[t] + i), s[t]);
    }
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) sums[t] = s[t];
}

// The same for three rows of three neighbours, two positions at a time: what neighbours meet is loaded once.
static void add_nine_products(const float* x, const float* dy, int64_t n, const int64_t* off, vf* sums) {
    vf s[3][3];
    const float* p[3];
    EFL_UNROLL
    for (int r = 0; r < 3; ++r) {
        p[r] = vector_at(x, off[3 * r]);
        EFL_UNROLL
        for (int j = 0; j < 3; ++j) s[r][j] = sums[3 * r + j];
    }
    const int64_t pairs = n / 2 * 2 * W;
    EFL_PRAGMA(GCC unroll 1)
    for (int64_t i = 0; i < pairs; i += 2 * W) {
        const vf d[2] = {load(dy + i), load(dy + i + W)};
        vf met[3][4];
        EFL_UNROLL
        for (int r = 0; r < 3; ++r) {
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) met[r][k] = load(p[r] + i + k * W);
        }
        EFL_UNROLL
        for (int q = 0; q < 2; ++q) {
            EFL_UNROLL
            for (int t = 0; t < 9; ++t) s[t / 3][t % 3] = fma(d[q], met[t / 3][q + t % 3], s[t / 3][t % 3]);
        }
    }
    EFL_UNROLL
    for (int t = 0; t < 9; ++t) sums[t] = s[t / 3][t % 3];
    if (n % 2) add_tap_products<9>(x + pairs, dy + pairs, 1, off, sums);
}

using AddTaps = void (*)(const float*, const float*, int64_t, const int64_t*, vf*);
constexpr AddTaps ADD_TAPS[SUMMED_TAPS] = {add_tap_products<1>, add_tap_products<2>, add_tap_products<3>,
                                           add_tap_products<4>, add_tap_products<5>, add_tap_products<6>,
                                           add_tap_products<7>, add_tap_products<8>, add_tap_products<9>};
