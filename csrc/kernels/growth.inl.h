// The coordinates with the largest gradients, of gradients that are seen a part at a time and not kept.
//
// Magnitudes are not negative, so that they are ordered as their bits are. The list is in the order of coordinates
// throughout: the first of equal magnitudes has the lowest coordinate, and nothing is ever sorted.

constexpr int RUN = 16;      // values between two looks at the room in the list, on every instruction set
constexpr int AT_ONCE = 64;  // values that are compared at once, where there is room for all of them

struct Ranked {
    float* magnitudes;
    int32_t* positions;

    // Appends the lanes whose bits are set behind the first n; returns the new n.
    inline int64_t append(int64_t n, vf magnitude, vf position, unsigned bits) const {
        const int count = __builtin_popcount(bits);
        store_packed(magnitudes + n, magnitude, bits, count);
        store_packed(reinterpret_cast<float*>(positions + n), position, bits, count);
        return n + count;
    }
};

static inline float of_bits(uint32_t bits) {
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
}

constexpr uint32_t INFINITE = 0x7f800000;  // the bits of infinity

static inline vf load_first(const float* p, int lanes) { return lanes == W ? load(p) : load_n(p, lanes); }

// ---- the cut: the smallest of the `rank` largest magnitudes ---------------------------------------------------------

// Where it lies, in bits, both ends included; and how many are larger than its upper end, and not below its lower one.
struct Span {
    uint32_t low, high;
    int64_t above, until;

    int64_t inside() const { return until - above; }
    bool holds(int64_t rank) const { return above < rank && rank <= until; }
};

static Span all_of(int64_t n) { return {.low = 0, .high = INFINITE, .above = 0, .until = n}; }

static int64_t count_above(const float* magnitudes, int64_t n, uint32_t bits) {
    const vf limit = set1(of_bits(bits));
    int64_t found = 0, i = 0;
    for (; i + W <= n; i += W) found += __builtin_popcount(larger_bits(load(magnitudes + i), limit));
    return found + __builtin_popcount(larger_bits(load_n(magnitudes + i, int(n - i)), limit));
}

// Halves a span that holds the rank-th largest until at most `most` lie inside, or all that do are equal.
static Span narrowed(const float* magnitudes, int64_t n, int64_t rank, Span span, int64_t most) {
    while (span.low < span.high && span.inside() > most) {
        const uint32_t middle = span.low + (span.high - span.low) / 2;
        const int64_t over = count_above(magnitudes, n, middle);
        if (over >= rank) span.low = middle + 1, span.until = over;
        else span.high = middle, span.above = over;
    }
    return span;
}

constexpr int64_t LEAST_SAMPLE = 256, MOST_BESIDE = 16384;  // magnitudes that are looked through aside
constexpr int64_t WORTH = 4 * LEAST_SAMPLE;

// A span that most likely holds the rank-th largest of n, four standard deviations of the sample's ranks to each side;
// its counts are not known yet.
static Span guess(const float* magnitudes, int64_t n, int64_t rank, float* sample) {
    const int64_t size = least(n / 32 > LEAST_SAMPLE ? n / 32 : LEAST_SAMPLE, MOST_BESIDE);
    const int64_t apart = int64_t(2 * std::sqrt(double(size)));
    const uint64_t step = (uint64_t(n) << 16) / uint64_t(size);
    for (int64_t i = 0; i < size; ++i) sample[i] = magnitudes[uint64_t(i) * step >> 16];
    const int64_t middle = rank * size / n, lower = middle + apart, upper = middle - apart;
    Span span = all_of(n);
    if (lower <= size) span.low = narrowed(sample, size, lower, all_of(size), 1).low;
    if (upper >= 1) span.high = narrowed(sample, size, upper, all_of(size), 1).high;
    return span;
}

// Counts of n magnitudes those above a span and inside of it, and takes what is inside to `to` [MOST_BESIDE + W], as
// long as there is room.
static void take_inside(const float* magnitudes, int64_t n, Span* span, float* to) {
    const vf low = set1(of_bits(span->low)), high = set1(of_bits(span->high));
    int64_t above = 0, inside = 0;
    for (int64_t i = 0; i < n; i += W) {
        const int lanes = int(least(W, n - i));
        const vf v = load_first(magnitudes + i, lanes);
        const unsigned over = larger_bits(v, high), in = ~(over | larger_bits(low, v)) & ((1u << lanes) - 1);
        if (inside <= MOST_BESIDE) store(to + inside, packed(v, in));
        above += __builtin_popcount(over);
        inside += __builtin_popcount(in);
    }
    span->above = above, span->until = above + inside;
}

// The cut within a span, of which the magnitudes lie beside.
static Span cut_inside(Span span, int64_t rank, float* beside) {
    while (span.low < span.high) {
        const int64_t n = span.inside(), above = span.above;
        span = narrowed(beside, n, rank - above, {.low = span.low, .high = span.high, .above = 0, .until = n}, n / 8);
        take_inside(beside, n, &span, beside);
        span.above += above, span.until += above;
    }
    return span;
}

// The cut of n magnitudes, 0 < rank <= n: a span of one value.
static Span cut_at(const float* magnitudes, int64_t n, int64_t rank) {
    if (n < WORTH) return narrowed(magnitudes, n, rank, all_of(n), 0);
    float beside[MOST_BESIDE + W];
    Span span = guess(magnitudes, n, rank, beside);
    take_inside(magnitudes, n, &span, beside);
    const bool is_missed = !span.holds(rank);
    if (is_missed || span.inside() > MOST_BESIDE) {
        span = narrowed(magnitudes, n, rank, is_missed ? all_of(n) : span, MOST_BESIDE);
        if (span.inside() > MOST_BESIDE) return span;
        take_inside(magnitudes, n, &span, beside);
    }
    return cut_inside(span, rank, beside);
}

// ---- the list -------------------------------------------------------------------------------------------------------

// put(first, lanes, bits) for vectors of the `count` largest of n magnitudes, in order; 0 < count <= n. Returns the
// cut.
template <class Put>
static float each_largest(const float* magnitudes, int64_t n, int64_t count, Put&& put) {
    const Span cut = cut_at(magnitudes, n, count);
    const vf limit = set1(of_bits(cut.low));
    int64_t equals = count - cut.above;
    for (int64_t i = 0; i < n; i += W) {
        const int lanes = int(least(W, n - i));
        const vf v = load_first(magnitudes + i, lanes);
        unsigned kept = larger_bits(v, limit);
        if (equals > 0) {
            unsigned equal = ~(kept | larger_bits(limit, v)) & ((1u << lanes) - 1);
            for (; equal && equals > 0; equal &= equal - 1, --equals) kept |= equal & -equal;
        }
        put(i, lanes, kept);
    }
    return of_bits(cut.low);
}

// Keeps the `count` largest of n; returns the smallest of them.
static float shrink(Ranked list, int64_t n, int64_t count) {
    if (count == 0) return INFINITY;
    int64_t kept = 0;
    return each_largest(list.magnitudes, n, count, [&](int64_t i, int lanes, unsigned bits) {
        const vf positions = load_first(reinterpret_cast<const float*>(list.positions + i), lanes);
        kept = list.append(kept, load_first(list.magnitudes + i, lanes), positions, bits);
    });
}

// ---- a part of the gradient -----------------------------------------------------------------------------------------

// 64 bits from `at` on of a bitmap of `bytes`; what lies behind its end reads as 0.
static inline uint64_t bits_from(const efl_uint8* bitmap, int64_t bytes, int64_t at) {
    const int64_t byte = at >> 3, shift = at & 7, there = least(8, bytes - byte);
    uint64_t found = 0;
    if (there == 8) std::memcpy(&found, bitmap + byte, 8);
    else
        for (int64_t b = 0; b < there; ++b) found |= uint64_t(bitmap[byte + b]) << (8 * b);
    if (shift == 0) return found;
    const uint64_t next = byte + 8 < bytes ? bitmap[byte + 8] : 0;
    return found >> shift | next << (64 - shift);
}

// Appends those of N values that are larger than the limit and whose bits in `open` are set; returns the new n.
template <int N>
static inline int64_t look(const Ranked& list, int64_t n, const float* grad, int64_t first, float limit,
                           uint64_t open) {
    uint64_t taken = 0;
    EFL_UNROLL
    for (int i = 0; i < N; i += W) taken |= uint64_t(larger_bits(magnitude(load(grad + i)), set1(limit))) << i;
    taken &= open;
    if (!taken) return n;
    for (int i = 0; i < N; i += W) {
        const unsigned bits = unsigned(taken >> i) & ((1u << W) - 1);
        n = list.append(n, magnitude(load(grad + i)), counted(int32_t(first + i)), bits);
    }
    return n;
}

static efl_status keep_largest_f32(const float* grad, efl_int64 size, efl_int64 first, const efl_uint8* exists,
                                   efl_int64 exists_bytes, efl_int64 count, float* magnitudes, efl_int32* positions,
                                   efl_int64 capacity, efl_int32* filled, float* smallest) {
    const Ranked list{magnitudes, positions};
    int64_t n = first == 0 ? 0 : *filled;
    float limit = first == 0 ? -1.0f : *smallest;
    for (int64_t i = 0, seen; i < size; i += seen) {
        if (n + RUN > capacity) {
            limit = shrink(list, n, count);
            n = count;
        }
        const uint64_t open = ~bits_from(exists, exists_bytes, first + i);
        seen = least(n + AT_ONCE <= capacity ? AT_ONCE : RUN, size - i);
        if (seen == AT_ONCE) n = look<AT_ONCE>(list, n, grad + i, first + i, limit, open);
        else {
            float some[AT_ONCE] = {};
            std::memcpy(some, grad + i, sizeof(float) * size_t(seen));
            n = look<AT_ONCE>(list, n, some, first + i, limit, open & ((uint64_t(1) << seen) - 1));
        }
    }
    *filled = int32_t(n);
    *smallest = limit;
    return EFL_OK;
}

static efl_status largest_places_f32(const float* magnitudes, const efl_int32* positions, efl_int64,
                                     const efl_int32* filled, efl_int64 count, efl_int32* found) {
    if (count == 0) return EFL_OK;
    each_largest(magnitudes, *filled, count, [&](int64_t i, int lanes, unsigned bits) {
        const int kept = __builtin_popcount(bits);
        store_packed(reinterpret_cast<float*>(found), load_first(reinterpret_cast<const float*>(positions + i), lanes),
                     bits, kept);
        found += kept;
    });
    return EFL_OK;
}
