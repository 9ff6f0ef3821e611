// Chosen columns of rows: read side by side, a few rows together, and written back to their positions, a vector of the
// row at a time.

struct Chosen {
    efl_index columns;
    int64_t extent;            // of a row
    uint16_t* bits = nullptr;  // [vectors + 1]: which lanes of a vector of the row are chosen
    int32_t* rank = nullptr;   // [vectors + 1]: how many columns are chosen before it

    Chosen(efl_index columns_, int64_t extent_) : columns(columns_), extent(columns_.ids ? extent_ : 0) {}

    int64_t vectors() const { return (extent + W - 1) / W; }

    void place_in(Carve& carve) {
        bits = carve.take<uint16_t>(vectors() + 1);
        rank = carve.take<int32_t>(vectors() + 1);
    }

    void fill() const {
        for (int64_t v = 0, n = 0; v <= vectors(); ++v) {
            bits[v] = 0, rank[v] = int32_t(n);
            for (; n < columns.count && columns.ids[n] < (v + 1) * W; ++n)
                bits[v] = uint16_t(bits[v] | 1u << (columns.ids[n] - v * W));
        }
    }

    // The chosen columns [first, last), and the vectors of a row that hold them.
    struct Range {
        int64_t first, last, v0, v1;
        unsigned in_first;  // the first vector's chosen lanes that belong to the range
    };

    Range range(int64_t first, int64_t last) const {
        Range r{first, last, columns.ids[first] / W, columns.ids[last - 1] / W, 0};
        r.in_first = bits[r.v0];
        for (int64_t skipped = rank[r.v0]; skipped < first; ++skipped) r.in_first &= r.in_first - 1;
        return r;
    }

    bool are_rare() const { return 5 * columns.count < 2 * extent; }

    static constexpr int64_t ROWS = 8;  // read together: tiles begin at distances that share a cache's sets

    // to[m * pitch + n - first] = rows[m][columns[n]] for m < count: one by one where they are rare, else by vectors.
    // What a vector writes too much, the next one overwrites.
    void read(const float* const* rows, int64_t count, const Range& r, float* to, int64_t pitch) const {
        if (are_rare()) {
            for (int64_t n = r.first; n < r.last; ++n)
                for (int64_t m = 0; m < count; ++m) to[m * pitch + n - r.first] = rows[m][columns.ids[n]];
            return;
        }
        unsigned from = r.in_first;
        for (int64_t v = r.v0; v <= r.v1; from = bits[++v]) {
            const int64_t at = v == r.v0 ? 0 : rank[v] - r.first, left = r.last - r.first - at, lanes = extent - v * W;
            if (left >= W && lanes >= W) {
                for (int64_t m = 0; m < count; ++m)
                    store(to + m * pitch + at, gather_bits(load(rows[m] + v * W), from));
                continue;
            }
            for (int64_t m = 0; m < count; ++m) {
                const vf vector = gather_bits(load_n(rows[m] + v * W, int(least(W, lanes))), from);
                store_n(to + m * pitch + at, vector, int(least(W, left)));
            }
        }
    }

    // Of each of `count` rows, `step` floats apart, the chosen columns of a range.
    void read_all(const float* rows, int64_t count, int64_t step, const Range& r, float* to, int64_t pitch) const {
        for (int64_t m = 0; m < count; m += ROWS, to += ROWS * pitch) {
            const float* few[ROWS];
            for (int64_t k = 0; k < least(ROWS, count - m); ++k) few[k] = rows + (m + k) * step;
            read(few, least(ROWS, count - m), r, to, pitch);
        }
    }

    // Copies the chosen columns of each of `count` rows, which hold the columns [begin, begin + width) in whole
    // vectors.
    void pick(const float* rows, int64_t count, int64_t pitch, int64_t begin, int64_t width, float* to,
              int64_t to_pitch) const {
        const int64_t first = rank[begin / W], last = rank[(begin + width + W - 1) / W];
        if (first < last) read_all(rows - begin, count, pitch, range(first, last), to + first, to_pitch);
    }

    // row[columns[n]] = from[n - first]; up to a vector after `from` is read.
    void write(const float* from, int64_t first, int64_t last, float* row) const {
        const int64_t v0 = columns.ids[first] / W, v1 = columns.ids[last - 1] / W;
        for (int64_t v = v0; v <= v1; ++v) {
            if (rank[v] >= first && rank[v + 1] <= last) {
                if (bits[v]) scatter_bits(row + v * W, load(from + rank[v] - first), bits[v]);
            } else
                for (int64_t n = most(rank[v], first); n < least(rank[v + 1], last); ++n)
                    row[columns.ids[n]] = from[n - first];
        }
    }

    static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
};
