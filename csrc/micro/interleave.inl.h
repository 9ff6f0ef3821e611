// A few rows side by side: how every kernel packs the operand whose consecutive floats a product broadcasts.

// to[i * pitch + m] = from[m][i] for i < n and m < rows, rows <= pitch. Up to W floats past the last row are
// overwritten.
static void interleave(const float* const* from, int64_t rows, int64_t n, float* to, int64_t pitch) {
    if (rows < 3 || rows > W || n < 4) {
        for (int64_t i = 0; i < n; ++i)
            for (int64_t m = 0; m < rows; ++m) to[i * pitch + m] = from[m][i];
        return;
    }
    const float* row[W];
    for (int m = 0; m < W; ++m) row[m] = from[m < rows ? m : 0];
    for (int64_t next = 0; next < n; next += 4) {
        const int64_t i = least(next, n - 4);  // the last four columns overlap those before
        vf columns[4];
        load_columns(row, i, columns);
        EFL_UNROLL
        for (int k = 0; k < 4; ++k) store(to + (i + k) * pitch, columns[k]);
    }
}
