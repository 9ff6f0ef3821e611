// A few rows side by side: how every kernel packs the operand whose consecutive floats a product broadcasts.

// turned[k] holds lane k of every word of square. Zipping word m with word m + W / 2 rotates the bits of an element's
// place by one; as many rounds as a lane has bits swap word and lane.
static inline void transpose(vf* square, vf* turned) {
    EFL_UNROLL
    for (int round = 1; round < W; round *= 2) {
        EFL_UNROLL
        for (int m = 0; m < W / 2; ++m) {
            turned[2 * m] = zip_low(square[m], square[m + W / 2]);
            turned[2 * m + 1] = zip_high(square[m], square[m + W / 2]);
        }
        EFL_UNROLL
        for (int m = 0; m < W; ++m) square[m] = turned[m];
    }
}

// to[i * pitch + m] = from[m][i] for i < n and m < rows, rows <= pitch. Up to W floats past the last row are
// overwritten.
static void interleave(const float* const* from, int64_t rows, int64_t n, float* to, int64_t pitch) {
    int64_t i = 0;
    if (2 < rows && rows <= W)
        for (; i + W <= n; i += W) {
            vf square[W], turned[W];
            EFL_UNROLL
            for (int m = 0; m < W; ++m) square[m] = load(from[m < rows ? m : 0] + i);
            transpose(square, turned);
            EFL_UNROLL
            for (int k = 0; k < W; ++k) store(to + (i + k) * pitch, turned[k]);
        }
    for (; i < n; ++i)
        for (int64_t m = 0; m < rows; ++m) to[i * pitch + m] = from[m][i];
}
