// The function of dot.inl.h: a loop over terms for every shape of a tile.

// Run i, added to acc. Its rows are found anew, as x86 has no registers for them beside the next run's.
template <int LEFT, int RIGHT>
__attribute__((always_inline)) static inline void add_run(const Dots& d, int64_t i, vf (&acc)[LEFT][RIGHT]) {
    const float* left[LEFT];
    const float* right[RIGHT];
    EFL_UNROLL
    for (int m = 0; m < LEFT; ++m) left[m] = held(d.left[m] + i * d.left_step);
    EFL_UNROLL
    for (int k = 0; k < RIGHT; ++k) right[k] = held(d.right[k] + i * d.right_step);
    EFL_PRAGMA(GCC unroll 2)
    for (int64_t n = 0; n < d.vectors; ++n) {
        const int64_t off = d.off[n];
        if (LEFT >= RIGHT) {  // keep the shorter operand in registers
            vf x[RIGHT];
            EFL_UNROLL
            for (int k = 0; k < RIGHT; ++k) x[k] = load(right[k] + off);
            EFL_UNROLL
            for (int m = 0; m < LEFT; ++m) {
                const vf w = load(left[m] + n * W);
                EFL_UNROLL
                for (int k = 0; k < RIGHT; ++k) acc[m][k] = fma(w, x[k], acc[m][k]);
            }
        } else {
            vf w[LEFT];
            EFL_UNROLL
            for (int m = 0; m < LEFT; ++m) w[m] = load(left[m] + n * W);
            EFL_UNROLL
            for (int k = 0; k < RIGHT; ++k) {
                const vf x = load(right[k] + off);
                EFL_UNROLL
                for (int m = 0; m < LEFT; ++m) acc[m][k] = fma(w[m], x, acc[m][k]);
            }
        }
    }
    if (d.tail == 0) return;
    EFL_UNROLL
    for (int m = 0; m < LEFT; ++m) {
        const vf w = load_n(left[m] + d.vectors * W, int(d.tail));
        EFL_UNROLL
        for (int k = 0; k < RIGHT; ++k) acc[m][k] = fma(w, load_n(right[k] + d.vectors * W, int(d.tail)), acc[m][k]);
    }
}

// A function of its own, whose registers are all for the tile.
template <int LEFT, int RIGHT>
__attribute__((noinline)) static void dots(const Dots& d) {
    vf acc[LEFT][RIGHT];
    EFL_UNROLL
    for (int m = 0; m < LEFT; ++m) {
        EFL_UNROLL
        for (int k = 0; k < RIGHT; ++k) acc[m][k] = d.add ? d.sums[m * RIGHT + k] : zero();
    }
    for (int64_t i = 0; i < d.runs; ++i) add_run(d, i, acc);
    EFL_UNROLL
    for (int m = 0; m < LEFT; ++m) {
        EFL_UNROLL
        for (int k = 0; k < RIGHT; ++k) d.sums[m * RIGHT + k] = acc[m][k];
    }
}

template <int LEFT, int RIGHT>
static void dots_right(const Dots& d, int64_t right) {
    if (right == RIGHT) return dots<LEFT, RIGHT>(d);
    if constexpr (RIGHT > 1) dots_right<LEFT, RIGHT - 1>(d, right);
}

template <int LEFT>
static void dots_left(const Dots& d, int64_t left, int64_t right) {
    if (left == LEFT) return dots_right<LEFT, rights_of(LEFT)>(d, right);
    if constexpr (LEFT > 1) dots_left<LEFT - 1>(d, left, right);
}

void dot_products(const Dots& d, int64_t left, int64_t right) { dots_left<MAX_LEFT>(d, left, right); }
