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

    // Copies one source plane into `to`, whose padding is already zero.
    void fill(const float* from, float* to) const {
        const int64_t first = rows.origin < 0 ? -rows.origin : 0, end = least(height, rows.source - rows.origin);
        for (int64_t phase = 0; phase < phases; ++phase) {
            const int64_t start = cols.origin + phase;
            const int64_t left = start < 0 ? (-start + cols.step - 1) / cols.step : 0;
            const int64_t right = least(pitch, start < cols.source ? (cols.source - start + cols.step - 1) / cols.step : 0);
            if (left >= right) continue;
            const float* in = from + (rows.origin + first) * cols.source + start + left * cols.step;
            float* out = to + (phase * height + first) * pitch + left;
            if (cols.step == 1) return copy_rows(out, pitch, in, cols.source, end - first, right - left);
            for (int64_t r = first; r < end; ++r, in += cols.source, out += pitch) {
                if (cols.step == 2) copy_alternate(out, in, right - left, start + 2 * left > 0);
                else for (int64_t j = 0; j < right - left; ++j) out[j] = in[j * cols.step];
            }
        }
    }
};
