// Chosen columns of rows: read side by side, and written back to their places, a word of the row at a time.

struct Chosen {
    efl_index columns;
    int64_t extent;  // of a row
    uint16_t* bits;  // [words + 1]: which lanes of a word of the row are chosen
    int32_t* rank;   // [words + 1]: how many columns are chosen before it

    int64_t words() const { return (extent + W - 1) / W; }

    void fill() const {
        for (int64_t v = 0, n = 0; v <= words(); ++v) {
            bits[v] = 0, rank[v] = int32_t(n);
            for (; n < columns.count && columns.ids[n] < (v + 1) * W; ++n)
                bits[v] = uint16_t(bits[v] | 1u << (columns.ids[n] - v * W));
        }
    }

    // The chosen columns [first, last), and the words of a row that hold them.
    struct Range {
        int64_t first, last, v0, v1;
        unsigned in_first;  // of the first word's chosen lanes those that belong to it
    };

    Range range(int64_t first, int64_t last) const {
        Range r{first, last, columns.ids[first] / W, columns.ids[last - 1] / W, 0};
        r.in_first = bits[r.v0];
        for (int64_t skipped = rank[r.v0]; skipped < first; ++skipped) r.in_first &= r.in_first - 1;
        return r;
    }

    bool are_rare() const { return 5 * columns.count < 2 * extent; }

    // to[n - first] = row[columns[n]]: one by one where they are rare, else by words. What a word writes too much, the
    // next one overwrites.
    void read(const float* row, const Range& r, float* to) const {
        if (are_rare()) {
            for (int64_t n = r.first; n < r.last; ++n) to[n - r.first] = row[columns.ids[n]];
            return;
        }
        unsigned from = r.in_first;
        for (int64_t v = r.v0; v <= r.v1; from = bits[++v]) {
            const int64_t at = v == r.v0 ? 0 : rank[v] - r.first, left = r.last - r.first - at, lanes = extent - v * W;
            const vf word = gather_bits(lanes >= W ? load(row + v * W) : load_n(row + v * W, int(lanes)), from);
            if (left >= W) store(to + at, word);
            else store_n(to + at, word, int(left));
        }
    }

    // Of each of `count` rows that hold the columns [begin, begin + width), whole words of them, the chosen ones.
    void pick(const float* rows, int64_t count, int64_t pitch, int64_t begin, int64_t width, float* to,
              int64_t to_pitch) const {
        const int64_t first = rank[begin / W], last = rank[(begin + width + W - 1) / W];
        if (first == last) return;
        const Range r = range(first, last);
        for (int64_t m = 0; m < count; ++m) read(rows + m * pitch - begin, r, to + m * to_pitch + first);
    }

    // row[columns[n]] = from[n - first]; up to a word after `from` is read.
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
