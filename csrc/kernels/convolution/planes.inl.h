// Geometry of a sliding window along each axis, and the padded planes that turn every tap into a shifted pointer.
//
// Position q and tap k meet at source cell q * step + shift(k); cells outside the source are zero. A convolution reads its
// input that way; its input gradient reads dy that way, once for every phase of the stride.

struct Axis {
    int64_t source, count, step, kernel;
    int64_t base, slope, divisor;  // shift(k) = (base + k * slope) / divisor, where that is whole
    int64_t origin = 0, last = 0, taps = 0;

    bool reaches(int64_t k) const { return (base + k * slope) % divisor == 0; }
    int64_t shift(int64_t k) const { return (base + k * slope) / divisor; }
    int64_t extent() const { return (count - 1) * step + last - origin + 1; }

    // How many taps before k reach the source.
    int64_t reached(int64_t k) const {
        int64_t count = 0;
        while (k-- > 0) count += reaches(k);
        return count;
    }

    void find_taps() {
        for (int64_t k = 0; k < kernel; ++k) {
            if (!reaches(k)) continue;
            origin = taps == 0 || shift(k) < origin ? shift(k) : origin;
            last = taps == 0 || shift(k) > last ? shift(k) : last;
            ++taps;
        }
    }
};

static Axis forward_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil) {
    Axis axis{size, out, stride, kernel, -pad, dil, 1};
    axis.find_taps();
    return axis;
}

// The inputs phase, phase + stride, ... below size, as positions over the outputs.
static Axis transposed_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil, int64_t phase) {
    Axis axis{out, (size - phase + stride - 1) / stride, 1, kernel, phase + pad, -dil, stride};
    axis.find_taps();
    return axis;
}

// to[j] = from[2 j] for j < n. Reads nothing past from[2 n - 2]; from[-1] only if it is there.
static inline void copy_alternate(float* to, const float* from, int64_t n, bool has_previous) {
    int64_t j = 0;
    if (n <= W) {
        const int reach = int(2 * n - 1);
        const vf low = load_n(from, int(least(W, reach))), high = reach > W ? load_n(from + W, reach - W) : zero();
        return store_n(to, evens(low, high), int(n));
    }
    if (has_previous) for (; j + W <= n; j += W) store(to + j, odds(load(from + 2 * j - 1), load(from + 2 * j + W - 1)));
    else for (; j + W < n; j += W) store(to + j, evens(load(from + 2 * j), load(from + 2 * j + W)));
    for (; j < n; ++j) to[j] = from[2 * j];
}

// Rows of (WORDS - 1) * W < n <= WORDS * W floats, n at least W. The last word of a row overlaps the one before.
template <int WORDS>
static inline void copy_row_words(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r, to += to_pitch, from += from_pitch) {
        EFL_UNROLL
        for (int v = 0; v < WORDS - 1; ++v) store(to + v * W, load(from + v * W));
        store(to + n - W, load(from + n - W));
    }
}

static void copy_rows(float* to, int64_t to_pitch, const float* from, int64_t from_pitch, int64_t rows, int64_t n) {
    if (n < W || n > 4 * W) {
        for (int64_t r = 0; r < rows; ++r) copy_floats(to + r * to_pitch, from + r * from_pitch, n);
    } else if (n > 3 * W) copy_row_words<4>(to, to_pitch, from, from_pitch, rows, n);
    else if (n > 2 * W) copy_row_words<3>(to, to_pitch, from, from_pitch, rows, n);
    else if (n > W) copy_row_words<2>(to, to_pitch, from, from_pitch, rows, n);
    else copy_row_words<1>(to, to_pitch, from, from_pitch, rows, n);
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
    CellBlock(int64_t pitch, const Inside& row, const Inside& col, int64_t row_step, int64_t col_step, int64_t down, int64_t along,
              int64_t width)
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
            const CellBlock block = blocks[i];
            if (step == 1) copy_rows(to + block.to, to_pitch, from + block.from, from_pitch, block.rows, block.cols);
            else skip_cells(block, step, to_pitch, from_pitch, from + block.from, to + block.to);
        }
    }

    static void skip_cells(CellBlock block, int64_t step, int64_t to_pitch, int64_t from_pitch, const float* from, float* to) {
        for (int64_t r = 0; r < block.rows; ++r, from += from_pitch, to += to_pitch) {
            if (step == 2) copy_alternate(to, from, block.cols, block.previous);
            else for (int64_t j = 0; j < block.cols; ++j) to[j] = from[j * step];
        }
    }
};

// Planes of one image: [channel][column phase][row][pitch]. With step 1 there is one phase; otherwise the columns are dealt
// out by their remainder, so that neighbouring positions are neighbours in memory.
struct Planes {
    Axis rows, cols;
    int64_t phases, height, pitch;

    Planes(const Axis& rows_, const Axis& cols_)
        : rows(rows_), cols(cols_), phases(least(cols.step, cols.last - cols.origin + 1)), height(rows.extent()),
          pitch(cols.count + (cols.last - cols.origin) / cols.step) {}

    int64_t size() const { return phases * height * pitch; }
    int64_t at(int64_t row_shift, int64_t col_shift) const {
        const int64_t col = col_shift - cols.origin;
        return (col % cols.step * height + row_shift - rows.origin) * pitch + col / cols.step;
    }

    // `room` for as many blocks as there are phases.
    CellCopies copies(CellBlock* room) const {
        const Inside row(rows.source, height, 1, rows.origin);
        for (int64_t phase = 0; phase < phases; ++phase) {
            const int64_t along = cols.origin + phase;
            room[phase] = CellBlock(pitch, row, Inside(cols.source, pitch, cols.step, along), 1, cols.step, rows.origin, along, cols.source);
            room[phase].to += phase * height * pitch;
        }
        return CellCopies{phases, pitch, cols.source, cols.step, room};
    }
};

// A channel as its taps meet it: planes as wide as the result, so that the positions of all rows are one run of lanes. There is
// a plane for every tap along a row; taps down a column share it, a row apart, unless the stride skips rows.
struct TapPlanes {
    Axis rows, cols;
    int64_t down, height;  // planes down a column

    explicit TapPlanes(const Planes& planes)
        : rows(planes.rows), cols(planes.cols), down(rows.step == 1 ? 1 : rows.taps),
          height(rows.step == 1 ? rows.extent() : rows.count) {}

    int64_t count() const { return down * cols.taps; }
    int64_t plane() const { return height * cols.count; }
    int64_t size() const { return count() * plane(); }
    int64_t at(int64_t kh, int64_t kw) const {
        if (rows.step == 1) return cols.reached(kw) * plane() + (rows.shift(kh) - rows.origin) * cols.count;
        return (rows.reached(kh) * cols.taps + cols.reached(kw)) * plane();
    }

    // `room` for count() blocks.
    CellCopies copies(CellBlock* room) const {
        CellBlock* block = room;
        for (int64_t kh = 0; kh < (rows.step == 1 ? 1 : rows.kernel); ++kh)
            for (int64_t kw = 0; kw < cols.kernel; ++kw) {
                if ((rows.step > 1 && !rows.reaches(kh)) || !cols.reaches(kw)) continue;
                const int64_t top = rows.step == 1 ? rows.origin : rows.shift(kh), along = cols.shift(kw);
                *block = CellBlock(cols.count, Inside(rows.source, height, rows.step, top), Inside(cols.source, cols.count, cols.step, along),
                                   rows.step, cols.step, top, along, cols.source);
                block->to += (block - room) * plane();
                ++block;
            }
        return CellCopies{count(), cols.count, rows.step * cols.source, cols.step, room};
    }
};
