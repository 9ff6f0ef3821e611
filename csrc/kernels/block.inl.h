// Blocks of a parameter: rows and columns of w [rows, cols, inner], gathered to and scattered from a compact array.
//
// A block is walked as segments: runs of neighbouring columns, which are contiguous in w and in the compact array. With all
// columns a row is one segment; behind a flatten a channel's columns are one.

// visit(w offset, compact offset, length) for every segment of compact row r.
template <class Visit>
static inline void each_segment(int64_t r, int64_t n_cols, int64_t inner, efl_index rows, efl_index cols, Visit&& visit) {
    const int64_t row = id_of(rows, r) * n_cols, taken = count_of(cols, n_cols), compact = r * taken;
    if (!cols.ids) return visit(row * inner, compact * inner, n_cols * inner);
    for (int64_t c = 0; c < taken;) {
        int64_t end = c + 1;
        while (end < taken && cols.ids[end] == cols.ids[end - 1] + 1) ++end;
        visit((row + cols.ids[c]) * inner, (compact + c) * inner, (end - c) * inner);
        c = end;
    }
}

static inline void copy_words(uint32_t* to, const uint32_t* from, int64_t n) {
    if (n >= 16) memcpy(to, from, size_t(n) * sizeof *to);
    else for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

static efl_status take_axes_32(const void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                               void* values) {
    const uint32_t* from = static_cast<const uint32_t*>(w);
    uint32_t* to = static_cast<uint32_t*>(values);
    split(count_of(rows, n_rows), count_of(cols, n_cols) * inner, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
            each_segment(r, n_cols, inner, rows, cols, [&](int64_t at, int64_t compact, int64_t n) { copy_words(to + compact, from + at, n); });
    });
    return EFL_OK;
}

static efl_status put_axes_32(void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                              const void* values) {
    uint32_t* to = static_cast<uint32_t*>(w);
    const uint32_t* from = static_cast<const uint32_t*>(values);
    split(count_of(rows, n_rows), count_of(cols, n_cols) * inner, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
            each_segment(r, n_cols, inner, rows, cols, [&](int64_t at, int64_t compact, int64_t n) { copy_words(to + at, from + compact, n); });
    });
    return EFL_OK;
}

static efl_status take_flat_32(const void* w, efl_int64, const efl_uint32* ids, efl_int64 count, void* values) {
    const uint32_t* from = static_cast<const uint32_t*>(w);
    uint32_t* to = static_cast<uint32_t*>(values);
    for (int64_t i = 0; i < count; ++i) to[i] = from[ids[i]];
    return EFL_OK;
}

static efl_status put_flat_32(void* w, efl_int64, const efl_uint32* ids, efl_int64 count, const void* values) {
    uint32_t* to = static_cast<uint32_t*>(w);
    const uint32_t* from = static_cast<const uint32_t*>(values);
    for (int64_t i = 0; i < count; ++i) to[ids[i]] = from[i];
    return EFL_OK;
}
