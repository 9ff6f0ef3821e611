// A masked convolution's results on their way from words of images back to [batch, channels, rows, cols].

// Where a word's images go. Those beyond the batch go nowhere.
struct SparseTargets {
    float* to[W];  // each image's first channel
    int64_t count;

    SparseTargets(float* y, int64_t batch, int64_t first, int64_t size) : count(least(W, batch - first)) {
        for (int64_t m = 0; m < count; ++m) to[m] = y + (first + m) * size;
    }
};

// Columns [0, n) of each image, whose words are at word(column): at[image][n].
template <class Word>
static void write_columns(const SparseTargets& targets, int64_t at, int64_t n, const Word& word) {
    if (targets.count < W || n < 4) {
        for (int64_t j = 0; j < n; ++j) {
            const float* const lanes = word(j);
            for (int64_t m = 0; m < targets.count; ++m) targets.to[m][at + j] = lanes[m];
        }
        return;
    }
    for (int64_t next = 0; next < n; next += 4) {
        const int64_t j = least(next, n - 4);  // the last four overlap those before
        const vf words[4] = {load(word(j)), load(word(j + 1)), load(word(j + 2)), load(word(j + 3))};
        store_columns(targets.to, at + j, words);
    }
}

// A tile of results: rows of `cols` words, from row `down` and column `along` of every row's map on.
struct SparseTile {
    int64_t down, along, rows, cols;
    int64_t cells() const { return rows * cols; }
};

// The results of the rows [first, first + count), tile by tile in `words`, whose phases are interleaved again.
static void write_tile(const SparseLayout& l, const SparseTargets& targets, const SparseTile& tile, int64_t first,
                       int64_t count, const float* words) {
    const int64_t height = l.transposed ? l.conv.height : l.down.positions;
    const int64_t width = l.transposed ? l.conv.width : l.along.positions;
    const int64_t down = l.down.row_phases, along = l.along.row_phases, size = tile.cells() * W;
    for (int64_t i = 0; i < count; i += along) {
        const int64_t row = first + i, channel = row / l.row_phases(), phase = row % l.row_phases() / along;
        for (int64_t r = 0; r < tile.rows; ++r) {
            const int64_t y = (tile.down + r) * down + phase, x = tile.along * along;
            if (y >= height) continue;
            const float* const from = words + i * size + r * tile.cols * W;
            write_columns(targets, (channel * height + y) * width + x, least(tile.cols * along, width - x),
                          [=](int64_t j) { return from + (along == 1 ? j * W : j % along * size + j / along * W); });
        }
    }
}
