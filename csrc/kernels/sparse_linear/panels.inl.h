// Activations with the batch inside, as the sparse products read them: [feature][vectors][W], each feature's values of
// a few vectors of examples side by side. Transposed in blocks on the way in and out.

// The first `lanes` lanes of v, the others 0.
static inline vf keep_first(vf v, int64_t lanes) { return lanes >= W ? v : keep_bits(v, (1u << lanes) - 1u); }

// to[i * pitch + m] = from[m * from_pitch + i] for i < n and m < rows <= W; lanes m >= rows become 0.
static void pack_vector(const float* from, int64_t from_pitch, int64_t rows, int64_t n, float* to, int64_t pitch) {
    if (n < 4) {
        for (int64_t i = 0; i < n; ++i)
            for (int64_t m = 0; m < W; ++m) to[i * pitch + m] = m < rows ? from[m * from_pitch + i] : 0;
        return;
    }
    const float* row[W];
    for (int m = 0; m < W; ++m) row[m] = from + (m < rows ? m : 0) * from_pitch;
    for (int64_t next = 0; next < n; next += 4) {
        const int64_t i = least(next, n - 4);  // the last four overlap those before
        vf columns[4];
        load_columns(row, i, columns);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) store(to + (i + k) * pitch, keep_first(columns[k], rows));
    }
}

// The features [first, first + n) of `examples` rows of x [..., features], as [n][vectors][W].
static void pack_panel(const float* x, int64_t features, int64_t first, int64_t n, int64_t examples, int64_t vectors,
                       float* to) {
    for (int64_t v = 0; v < vectors; ++v)
        pack_vector(x + v * W * features + first, features, least(W, examples - v * W), n, to + v * W, vectors * W);
}

// The inverse: x[b, first + i] = from[i][b] for the first `examples` examples.
static void unpack_panel(const float* from, int64_t vectors, int64_t n, int64_t examples, float* x, int64_t features,
                         int64_t first) {
    const float* row[W];
    vf columns[4];
    for (int64_t i = 0; i < n; i += W) {
        const int64_t lanes = least(W, n - i);
        for (int m = 0; m < W; ++m) row[m] = from + (i + (m < lanes ? m : 0)) * vectors * W;
        for (int64_t b = 0; b < examples; b += 4) {
            load_columns(row, b, columns);
            float* to = x + b * features + first + i;
            for (int64_t k = 0; k < least(4, examples - b); ++k, to += features)
                lanes == W ? store(to, columns[k]) : store_n(to, columns[k], int(lanes));
        }
    }
}
