// Results of a masked convolution, a tile at a time: some rows by columns of one channel's map stay in registers over
// all weights that it has in a block of the source's channels. Of W images at once, one a lane.

constexpr int SPARSE_COLS = REGISTERS >= 32 ? 8 : 4;  // of a tile, at most
constexpr int SPARSE_ROWS = REGISTERS >= 32 ? 4 : 3;
constexpr int SPARSE_CELLS = REGISTERS < 32 ? 12 : READS_IN_FMA ? 24 : 21;

// One cell's lists, and what they read and write.
struct SparseLists {
    const unsigned short *list, *runs;
    int64_t lists, list_size;
    const float* values;
    const float* cells;  // of the block, at the tile's first position
    int64_t pitch;       // floats from row to row
    float* results;      // [row of the part], `step` floats each: [ROWS][COLS] vectors
    int64_t step;
};

// LENGTH weights whose cells lie side by side: every vector that is loaded serves all of them.
template <int ROWS, int COLS, int LENGTH>
static inline void add_run(vf (&acc)[ROWS][COLS], const float* x, int64_t pitch, const float* values) {
    vf w[LENGTH];
    EFL_UNROLL
    for (int k = 0; k < LENGTH; ++k) w[k] = set1(values[k]);
    EFL_UNROLL
    for (int r = 0; r < ROWS; ++r, x = held(x + pitch)) {
        EFL_UNROLL
        for (int c = 0; c < COLS + LENGTH - 1; ++c) {
            const vf cell = LENGTH == 1 ? load(x + c * W) : held(load(x + c * W));
            EFL_UNROLL
            for (int k = 0; k < LENGTH; ++k)
                if (0 <= c - k && c - k < COLS) acc[r][c - k] = fma(w[k], cell, acc[r][c - k]);
        }
    }
}

template <int ROWS, int COLS>
static void add_lists(const SparseLists& lists) {
    SparseLists p = lists;
    for (int64_t i = 0; i < p.lists; ++i, p.list += p.list_size) {
        float* const results = p.results + p.list[0] * p.step;
        vf acc[ROWS][COLS];
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r) EFL_UNROLL
        for (int c = 0; c < COLS; ++c) acc[r][c] = load(results + (r * COLS + c) * W);
        const unsigned short* end = p.runs + p.list[1];
        for (; p.runs < end; ++p.runs, p.values += 3)
            add_run<ROWS, COLS, 3>(acc, p.cells + *p.runs * W, p.pitch, p.values);
        end += p.list[2];
        for (; p.runs < end; ++p.runs, p.values += 2)
            add_run<ROWS, COLS, 2>(acc, p.cells + *p.runs * W, p.pitch, p.values);
        end += p.list[3];
        for (; p.runs < end; ++p.runs, p.values += 1)
            add_run<ROWS, COLS, 1>(acc, p.cells + *p.runs * W, p.pitch, p.values);
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r) EFL_UNROLL
        for (int c = 0; c < COLS; ++c) store(results + (r * COLS + c) * W, acc[r][c]);
    }
}

using AddLists = void (*)(const SparseLists&);

template <int ROWS, int COLS>
static AddLists lists_of(int64_t rows, int64_t cols) {
    if (rows < ROWS) {
        if constexpr (ROWS > 1) return lists_of<ROWS - 1, COLS>(rows, cols);
    } else if (cols < COLS) {
        if constexpr (COLS > 1) return lists_of<ROWS, COLS - 1>(rows, cols);
    }
    if constexpr (ROWS * COLS <= SPARSE_CELLS) return add_lists<ROWS, COLS>;
    return nullptr;
}
