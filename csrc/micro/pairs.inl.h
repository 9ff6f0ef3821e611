// Two vectors at a time: floats whose even and odd positions are worked on apart, as windows of 2 x 2 have them.

// 2 W floats from p, of which `left` may be read.
static inline void load_pair(const float* p, int64_t left, vf* a, vf* b) {
    if (left >= 2 * W) {
        *a = load(p);
        *b = load(p + W);
        return;
    }
    *a = load_n(p, int(least(left, W)));
    *b = left > W ? load_n(p + W, int(left - W)) : zero();
}

// 2 n floats: a and b interleaved.
static inline void store_pairs(float* p, vf a, vf b, int n) {
    if (n == W) {
        store(p, zip_low(a, b));
        store(p + W, zip_high(a, b));
        return;
    }
    store_n(p, zip_low(a, b), int(least(W, 2 * n)));
    if (2 * n > W) store_n(p + W, zip_high(a, b), 2 * n - W);
}

// 2 W floats in the order of pairs: every second from the first on, and every second from the second on.
#if !defined(EFL_LOADS_APART)
static inline void load_apart(const float* p, vf* even, vf* odd) {
    const vf a = load(p), b = load(p + W);
    *even = pair_evens(a, b), *odd = pair_odds(a, b);
}
static inline void store_joined(float* p, vf even, vf odd) {
    store(p, join_low(even, odd));
    store(p + W, join_high(even, odd));
}
#endif

// W floats in the order of pairs.
static inline vf in_pair_order(const float* p) { return W == 4 ? load(p) : in_pair_order(p, p + W / 2); }
