// Copying and clearing floats by vectors.

static inline void copy_floats(float* to, const float* from, int64_t n) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(to + i, load(from + i));
    if (i == n) return;
    if (n >= W) return store(to + n - W, load(from + n - W));  // overlaps the last vector
    for (; i < n; ++i) to[i] = from[i];
}

static inline void zero_floats(float* to, int64_t n) { std::memset(to, 0, sizeof(float) * size_t(n)); }

// n of a vector's floats.
static inline vf part(const float* p, int n) { return n == W ? load(p) : load_n(p, n); }
static inline void put(float* p, vf v, int n) {
    if (n == W) store(p, v);
    else store_n(p, v, n);
}
