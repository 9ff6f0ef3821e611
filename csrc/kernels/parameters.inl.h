// Blocks of a parameter: rows and columns of w [rows, cols, inner], gathered to and scattered from a compact array.
//
// A block is walked in segments: runs of neighbouring columns, which are contiguous in w and in the compact array. With
// all columns a row is one segment; behind a flatten a channel's columns are one. Single columns without neighbours are
// taken one by one, which is three times as fast as looking for runs of length one.

struct Block {
    int64_t n_rows, n_cols, inner;
    efl_index rows, cols;

    inline int64_t row_count() const { return count_of(rows, n_rows); }
    inline int64_t col_count() const { return count_of(cols, n_cols); }

    inline bool scattered() const {
        if (!cols.ids || inner != 1) return false;
        int64_t runs = 0;
        for (int64_t c = 0; c < cols.count; ++c) runs += c == 0 || cols.ids[c] != cols.ids[c - 1] + 1;
        return cols.count < 4 * runs;
    }
};

// segment(at in w, at in the compact array, length) for each run of columns of compact row r.
template <class Segment>
static inline void each_segment(const Block& block, int64_t r, Segment&& segment) {
    const int64_t row = id_of(block.rows, r) * block.n_cols, taken = block.col_count(), inner = block.inner;
    const int32_t* cols = block.cols.ids;
    if (!cols) return segment(row * inner, r * taken * inner, taken * inner);
    for (int64_t c = 0; c < taken;) {
        int64_t end = c + 1;
        while (end < taken && cols[end] == cols[end - 1] + 1) ++end;
        segment((row + cols[c]) * inner, (r * taken + c) * inner, (end - c) * inner);
        c = end;
    }
}

// Visits the whole block: element(at in w, at in the compact array) or segment(..., length).
template <class Element, class Segment>
static void walk(const Block& block, Element&& element, Segment&& segment) {
    const bool scattered = block.scattered();
    const int64_t taken = block.col_count();
    split(block.row_count(), taken * block.inner, [=](int64_t first, int64_t last) {
        if (!block.rows.ids && !block.cols.ids) {  // neighbours all
            const int64_t length = taken * block.inner;
            return segment(first * length, first * length, (last - first) * length);
        }
        for (int64_t r = first; r < last; ++r) {
            if (!scattered) {
                each_segment(block, r, segment);
                continue;
            }
            const int64_t row = id_of(block.rows, r) * block.n_cols;
            for (int64_t c = 0; c < taken; ++c) element(row + block.cols.ids[c], r * taken + c);
        }
    });
}

static inline void copy_words(uint32_t* to, const uint32_t* from, int64_t n) {
    memcpy(to, from, size_t(n) * sizeof *to);
}

static efl_status take_axes_32(const void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                               efl_index cols, void* values) {
    const uint32_t* from = static_cast<const uint32_t*>(w);
    uint32_t* to = static_cast<uint32_t*>(values);
    walk(
        Block{n_rows, n_cols, inner, rows, cols}, [&](int64_t at, int64_t k) { to[k] = from[at]; },
        [&](int64_t at, int64_t k, int64_t n) { copy_words(to + k, from + at, n); });
    return EFL_OK;
}

static efl_status put_axes_32(void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                              efl_index cols, const void* values) {
    uint32_t* to = static_cast<uint32_t*>(w);
    const uint32_t* from = static_cast<const uint32_t*>(values);
    walk(
        Block{n_rows, n_cols, inner, rows, cols}, [&](int64_t at, int64_t k) { to[at] = from[k]; },
        [&](int64_t at, int64_t k, int64_t n) { copy_words(to + at, from + k, n); });
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

// The largest of count positions, or 0.
static uint32_t largest_of(const efl_uint32* positions, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = positions[i] > largest ? positions[i] : largest;
    return largest;
}

// Two positions a load: what is asked of memory for each value bounds it, not the caches, nor do gather instructions
// help.
static efl_status permute_f32(const float* values, const efl_uint32* order, efl_int64 count, float* permuted) {
    if (count && largest_of(order, count) >= count) return EFL_BAD_INDEX;
    split(count, 8, [=](int64_t first, int64_t last) {
        int64_t i = first;
        for (; i + 8 <= last; i += 8) {
            EFL_UNROLL
            for (int k = 0; k < 8; k += 2) {
                uint64_t positions;
                std::memcpy(&positions, order + i + k, sizeof positions);
                permuted[i + k] = values[uint32_t(positions)];
                permuted[i + k + 1] = values[positions >> 32];
            }
        }
        for (; i < last; ++i) permuted[i] = values[order[i]];
    });
    return EFL_OK;
}
