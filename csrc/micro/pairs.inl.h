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
