// A few rows side by side: how every kernel packs the operand whose consecutive floats a product broadcasts.

// to[i * pitch + m] = from[m][i] for i < n and m < rows, rows <= pitch. Up to W floats past the last row are
// overwritten.
static void interleave(const float* const* from, int64_t rows, int64_t n, float* to, int64_t pitch) {
    if (W == 4 && rows > W && n >= 4) {  // words of four, the last of which overlap those before
        for (int64_t m = 0; m < rows; m += W) {
            const int64_t first = least(m, rows - W);
            interleave(from + first, W, n, to + first, pitch);
        }
        return;
    }
    if (rows < 3 || rows > W || n < 4) {
        for (int64_t i = 0; i < n; ++i)
            for (int64_t m = 0; m < rows; ++m) to[i * pitch + m] = from[m][i];
        return;
    }
    const float* row[W];
    for (int m = 0; m < W; ++m) row[m] = from[m < rows ? m : 0];
    const auto four = [&](int64_t i, float* at) {
        vf columns[4];
        load_columns(row, i, columns);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k, at += pitch) store(at, columns[k]);
    };
    int64_t i = 0;
    for (float* at = to; i + 4 <= n; i += 4, at += 4 * pitch) four(i, at);
    if (i < n) four(n - 4, to + (n - 4) * pitch);  // columns that overlap those before
}
