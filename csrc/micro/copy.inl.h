// Copying and clearing floats by vectors.

static inline void copy_floats(float* to, const float* from, int64_t n) {
    const int64_t i = write_vectors(n, to, [=](int64_t at) { return load(from + at); });
    if (i == n) return;
    if (n >= W) return store(to + n - W, load(from + n - W));  // overlaps the last vector
    for (int64_t k = i; k < n; ++k) to[k] = from[k];
}

// Up to a vector, where an instruction set has stores of a part that take as long as any other.
static inline void copy_few(float* to, const float* from, int64_t n) {
    if (W == 16 && n <= W) store_n(to, load_n(from, int(n)), int(n));
    else copy_floats(to, from, n);
}

static inline void zero_floats(float* to, int64_t n) { std::memset(to, 0, sizeof(float) * size_t(n)); }

// n of a vector's floats.
static inline vf part(const float* p, int n) { return n == W ? load(p) : load_n(p, n); }
static inline void put(float* p, vf v, int n) {
    if (n == W) store(p, v);
    else store_n(p, v, n);
}

// A vector among others, by its distance in bytes: no processor scales it.
static inline float* vector_at(float* p, int64_t bytes) {
    return reinterpret_cast<float*>(reinterpret_cast<char*>(p) + bytes);
}
static inline const float* vector_at(const float* p, int64_t bytes) {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(p) + bytes);
}
