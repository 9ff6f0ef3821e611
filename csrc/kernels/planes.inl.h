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
    if (has_previous) for (; j + W <= n; j += W) store(to + j, odds(load(from + 2 * j - 1), load(from + 2 * j + W - 1)));
    else for (; j + W < n; j += W) store(to + j, evens(load(from + 2 * j), load(from + 2 * j + W)));
    for (; j < n; ++j) to[j] = from[2 * j];
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
            for (int64_t r = first; r < end; ++r) {
                const float* in = from + (rows.origin + r) * cols.source + start + left * cols.step;
                float* out = to + (phase * height + r) * pitch + left;
                if (cols.step == 1) copy_floats(out, in, right - left);
                else if (cols.step == 2) copy_alternate(out, in, right - left, start + 2 * left > 0);
                else for (int64_t j = 0; j < right - left; ++j) out[j] = in[j * cols.step];
            }
        }
    }
};
