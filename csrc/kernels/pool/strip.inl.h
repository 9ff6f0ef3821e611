// Windows by vectors, where they go by one or two columns. The columns of a plane are taken apart into STRIDE combs:
// comb q holds columns q, q + STRIDE, q + 2 STRIDE ... So cell k of neighbouring windows lies side by side, in one comb
// at n + shift(k) for window n. A strip is up to STRIP neighbouring positions of such a sequence.
//
// A vector that overlaps two vectors just written is slow to read. So some sequences are written first, then they are
// read.

constexpr int64_t STRIP = 64;
constexpr int64_t STRIP_KERNEL = 16;  // cells that a window has in a row, or in a column, at most
constexpr int64_t STRIP_SEQUENCE =
    STRIP_KERNEL + STRIP + STRIP_KERNEL + 2 * W;  // floats: a strip, and what its windows see
constexpr int64_t SEQUENCES = 8;                  // rows, written before they are read
constexpr int64_t RING = 32;  // rows that are known at a time: of a window of STRIP_KERNEL, and SEQUENCES more

// The positions [first, first + count) of a sequence, and where they are in a buffer that holds what lies beside them,
// too.
struct Strip {
    int64_t first, count, vectors;

    Strip(int64_t first_, int64_t total)
        : first(first_), count(least(STRIP, total - first)), vectors((count + W - 1) / W) {}

    int lanes(int64_t vector) const { return int(least(W, count - vector * W)); }

    static int64_t at(int64_t shift, int64_t vector) { return STRIP_KERNEL + shift + vector * W; }

    // The positions from `before` ahead of the strip up to `after` behind its vectors: copy(to, position, n) puts the
    // positions of [0, total) there, and `fill` stands outside. copy may write up to a vector more than it is asked
    // for.
    template <class Copy>
    void gather(int64_t before, int64_t after, int64_t total, float fill, float* sequence, const Copy& copy) const {
        float* const origin = sequence + STRIP_KERNEL;  // of position `first`
        const int64_t from = -before, to = vectors * W + after;
        const int64_t begin = first + from < 0 ? -first : from, inside = least(to, total - first);
        const int64_t end = inside > begin ? inside : begin;
        for (int64_t i = from; i < begin; i += W) store(origin + i, set1(fill));
        copy(origin + begin, first + begin, end - begin);
        // One vector more, as loops go by vectors.
        for (int64_t i = end; i < to + W; i += W) store(origin + i, set1(fill));
    }
};

// visit(strip) for the strips of sequences of `total` positions.
template <class Visit>
static void each_strip(int64_t total, const Visit& visit) {
    for (int64_t first = 0; first < total; first += STRIP) visit(Strip(first, total));
}

// visit(the stride as a constant) where windows can go by strips; false where not.
template <class Visit>
static bool by_strips(const efl_pool2d& p, const Visit& visit) {
    if (p.kernel_h > STRIP_KERNEL || p.kernel_w > STRIP_KERNEL || p.stride_w > 2) return false;
    if (p.stride_w == 1) visit(std::integral_constant<int64_t, 1>());
    else visit(std::integral_constant<int64_t, 2>());
    return true;
}

static inline int64_t shift_of(int64_t k, int64_t pad, int64_t stride) {
    return stride == 1 ? k - pad : (k - pad) >> 1;
}

// The combs of a row that the windows of a strip see. What a row needs is known before.
template <int64_t STRIDE>
struct Combs {
    Strip strip;
    int64_t width, from, to, begin, end[STRIDE];  // positions from the strip's first: seen, and inside the row
    int64_t at[STRIP_KERNEL];  // where cell k of the first vector of windows lies in what take_apart leaves

    Combs(const efl_pool2d& p, const Strip& strip_)
        : strip(strip_), width(p.width), from(shift_of(0, p.pad_w, STRIDE)),
          to(strip.vectors * W + shift_of(p.kernel_w - 1, p.pad_w, STRIDE)),
          begin(strip.first + from < 0 ? -strip.first : from) {
        for (int64_t q = 0; q < STRIDE; ++q) {
            const int64_t inside = least(to, (width - q + STRIDE - 1) / STRIDE - strip.first);
            end[q] = inside > begin ? inside : begin;
        }
        for (int64_t k = 0; k < p.kernel_w; ++k)
            at[k] = ((k - p.pad_w) & (STRIDE - 1)) * STRIP_SEQUENCE + Strip::at(shift_of(k, p.pad_w, STRIDE), 0);
    }

    // Writes a sequence for each comb; `fill` is what lies outside.
    void take_apart(const float* row, float fill, float* sequences) const {
        float* const origin = sequences + STRIP_KERNEL;
        for (int64_t q = 0; q < STRIDE; ++q)
            for (int64_t i = from; i < begin; i += W) store(origin + q * STRIP_SEQUENCE + i, set1(fill));
        const int64_t first = (strip.first + begin) * STRIDE, n = end[0] - begin;
        float* const copy = origin + begin;
        if (STRIDE == 1) copy_floats(copy, row + first, n);
        else
            for (int64_t i = 0; i < n; i += W) {  // both combs, of which the first is the longer one
                vf even, odd;
                load_pair(row + first + 2 * i, width - first - 2 * i, &even, &odd);
                store(copy + i, evens(even, odd));
                store(copy + STRIP_SEQUENCE + i, odds(even, odd));
            }
        for (int64_t q = 0; q < STRIDE; ++q)
            for (int64_t i = end[q]; i < to; i += W) store(origin + q * STRIP_SEQUENCE + i, set1(fill));
    }
};

// A row of a plane put together from the positions of a strip of each comb; sum(first cell, vector) says what they
// hold. The cells that see a column are that one and every STRIDE-th after it.
template <int64_t STRIDE, class Sum>
static inline void put_together(const efl_pool2d& p, const Strip& strip, float* row, const Sum& sum) {
    for (int64_t v = 0; v < strip.vectors; ++v) {
        const int64_t position = strip.first + v * W, left = p.width - position * STRIDE;
        float* const to = row + position * STRIDE;
        if (STRIDE == 1) {
            store_n(to, sum(0, v), int(least(W, left)));
            continue;
        }
        const vf even = sum(p.pad_w & 1, v), odd = sum((p.pad_w + 1) & 1, v);
        store_n(to, zip_low(even, odd), int(least(W, left)));
        if (left > W) store_n(to + W, zip_high(even, odd), int(least(W, left - W)));
    }
}

// The rows of windows that see a row of the plane, [first, last), one row of it after another.
struct Seeing {
    const efl_pool2d& p;
    int64_t rows, first = 0, last = 0;

    explicit Seeing(const Pooling& pool) : p(*pool.p), rows(pool.out_h) {}

    void go_to(int64_t h) {
        while (first < rows && first * p.stride_h + p.kernel_h <= h + p.pad_h) ++first;
        while (last < rows && last * p.stride_h <= h + p.pad_h) ++last;
    }
};

// The rows of a plane in turns of SEQUENCES: begin(row, n) makes ready what each(row, n) needs, the nth of a turn.
template <class Begin, class Each>
static inline void in_turns(int64_t rows, const Begin& begin, const Each& each) {
    for (int64_t h = 0; h < rows; h += SEQUENCES) {
        const int64_t count = least(SEQUENCES, rows - h);
        for (int64_t n = 0; n < count; ++n) begin(h + n, n);
        for (int64_t n = 0; n < count; ++n) each(h + n, n);
    }
}
