// Copies a channel's cells into planes whose padding is already zero.

constexpr int64_t PLANES_AHEAD = 4096;  // floats, by which cells are fetched that lie apart

// to[j] = from[2 j] for j < n, more than a vector. Reads nothing past from[2 n - 2]; from[-1] only if it is there.
static inline void copy_alternate(float* to, const float* from, int64_t n, bool has_previous) {
    for (int64_t q = 0; q < 2 * n; q += LINE) __builtin_prefetch(from + PLANES_AHEAD + q);
    int64_t j = 0;
    if (has_previous)
        for (; j + W <= n; j += W) store(to + j, odds(load(from + 2 * j - 1), load(from + 2 * j + W - 1)));
    else
        for (; j + W < n; j += W) store(to + j, evens(load(from + 2 * j), load(from + 2 * j + W)));
    if (BY_LANES && j < n) {  // a vector that overlaps the one before
        const float* last = from + 2 * (n - W) - 1;
        return store(to + n - W, odds(load(last), load(last + W)));
    }
    for (; j < n; ++j) to[j] = from[2 * j];
}

// Copies such floats of rows of up to a vector, whose masks are worked out once.
static inline void copy_short_alternates(float* to, int64_t to_pitch, const float* from, int64_t from_pitch,
                                         int64_t rows, int64_t n) {
    const int reach = int(2 * n - 1), low = int(least(W, reach));
    for (int64_t r = 0; r < rows; ++r, to += to_pitch, from += from_pitch) {
        __builtin_prefetch(from + PLANES_AHEAD);
        if (reach > LINE) __builtin_prefetch(from + PLANES_AHEAD + LINE);
        const vf upper = reach <= W ? zero() : load_n(from + W, reach - W);
        store_n(to, evens(load_n(from, low), upper), int(n));
    }
}

// Copies rows of (VECTORS - 1) * W < n <= VECTORS * W floats, n at least W. The last vector of a row overlaps the one
// before.
template <int VECTORS>
static inline void copy_row_vectors(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows,
                                    int64_t n) {
    for (int64_t r = 0; r < rows; ++r, to += to_pitch, from += from_pitch) {
        vf row[VECTORS];
        EFL_UNROLL
        for (int v = 0; v < VECTORS - 1; ++v) row[v] = load(from + v * W);
        row[VECTORS - 1] = load(from + n - W);
        EFL_UNROLL
        for (int v = 0; v < VECTORS - 1; ++v) store(to + v * W, row[v]);
        store(to + n - W, row[VECTORS - 1]);
    }
}

// Copies rows of less than a vector, where stores have masks.
static inline void copy_short_rows(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows,
                                   int64_t n) {
    for (int64_t r = 0; r < rows; ++r, to += to_pitch, from += from_pitch) store_n(to, load_n(from, int(n)), int(n));
}

static void copy_rows(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows, int64_t n) {
    // Rows of whole vectors, by fewer instructions.
    if (BY_LANES && n == 2 * W) return copy_row_vectors<2>(to, to_pitch, from, from_pitch, rows, 2 * W);
    if (BY_LANES && n == 4 * W) return copy_row_vectors<4>(to, to_pitch, from, from_pitch, rows, 4 * W);
    if (n < W && W >= 8) {
        copy_short_rows(to, to_pitch, from, from_pitch, rows, n);
    } else if (n < W || n > 4 * W) {
        for (int64_t r = 0; r < rows; ++r) copy_floats(to + r * to_pitch, from + r * from_pitch, n);
    } else if (n > 3 * W) copy_row_vectors<4>(to, to_pitch, from, from_pitch, rows, n);
    else if (n > 2 * W) copy_row_vectors<3>(to, to_pitch, from, from_pitch, rows, n);
    else if (n > W) copy_row_vectors<2>(to, to_pitch, from, from_pitch, rows, n);
    else copy_row_vectors<1>(to, to_pitch, from, from_pitch, rows, n);
}

// The i < count whose cells i * step + shift lie inside the source: [first, end).
struct Inside {
    int64_t first, end;
    Inside(int64_t source, int64_t count, int64_t step, int64_t shift)
        : first(shift < 0 ? (-shift + step - 1) / step : 0),
          end(least(count, shift < source ? (source - shift + step - 1) / step : 0)) {}
};

// A rectangle of a channel's cells, and where it goes. previous: whether there is a cell before the first.
struct CellBlock {
    int64_t to, from, rows, cols;
    bool previous;

    CellBlock() = default;
    // Positions `row` by `col` of a plane of `pitch` whose first cell is (down, along) of a source of `width`.
    CellBlock(int64_t pitch, const Inside& row, const Inside& col, int64_t row_step, int64_t col_step, int64_t down,
              int64_t along, int64_t width)
        : to(row.first * pitch + col.first), from((row.first * row_step + down) * width + col.first * col_step + along),
          rows(col.first < col.end && row.first < row.end ? row.end - row.first : 0), cols(col.end - col.first),
          previous(col.first * col_step + along > 0) {}
};

// How a channel is copied into its planes, worked out once for all channels and images.
struct CellCopies {
    int64_t count, to_pitch, from_pitch, step;  // step: cells from one column to the next
    const CellBlock* blocks;

    // Into planes whose padding is already zero.
    void fill(const float* from, float* to) const {
        for (int64_t i = 0; i < count; ++i) {
            const CellBlock& block = blocks[i];
            copy(to + block.to, from + block.from, block.rows, block.cols, block.previous);
        }
    }

    // A block is named by its numbers, not copied: what a copy holds would be read back before it is written.
    void copy(float* to, const float* from, int64_t rows, int64_t cols, bool previous) const {
        const int64_t down = to_pitch, below = from_pitch, apart = step;
        if (apart == 1) return copy_rows(to, down, from, below, rows, cols);
        if (apart == 2 && cols <= W) return copy_short_alternates(to, down, from, below, rows, cols);
        for (int64_t r = 0; r < rows; ++r, from += below, to += down) {
            if (apart == 2) copy_alternate(to, from, cols, previous);
            else
                for (int64_t j = 0; j < cols; ++j) to[j] = from[j * apart];
        }
    }
};
