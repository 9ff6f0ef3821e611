// The coordinates with the largest gradients, of gradients that are seen a part at a time and not kept.
//
// Magnitudes are not negative, so that they are ordered as their bits are. The list is in the order of coordinates
// throughout: the first of equal magnitudes has the lowest coordinate, and nothing is ever sorted.

constexpr int RUN = 16;  // values between two looks at the room in the list, on every tier

struct Ranked {
    float* magnitudes;
    int32_t* places;

    // Appends the lanes whose bits are set behind the first n; returns the new n.
    inline int64_t append(int64_t n, vf magnitude, vf place, unsigned bits) const {
        const int count = __builtin_popcount(bits);
        store_n(magnitudes + n, packed(magnitude, bits), count);
        store_n(reinterpret_cast<float*>(places + n), packed(place, bits), count);
        return n + count;
    }
};

static inline uint32_t bits_of(float magnitude) {
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return bits;
}

static inline float of_bits(uint32_t bits) {
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
}

constexpr uint32_t INFINITE = 0x7f800000;  // the bits of infinity

// |v|, and infinity for what is not a number.
static inline vf magnitude_of(vf v) {
    const vf magnitude = if_above(v, zero(), v, sub(zero(), v));
    return if_above(magnitude, set1(of_bits(INFINITE - 1)), set1(INFINITY), magnitude);
}

// The lanes with a > b, which are numbers.
static inline unsigned larger(vf a, vf b) { return positive_bits(sub(a, b)); }

static inline vf load_first(const float* p, int lanes) { return lanes == W ? load(p) : load_n(p, lanes); }

// ---- the cut: the smallest of the `rank` largest magnitudes ---------------------------------------------------------

// Where it lies, in bits, both ends included; and of those between, which of the largest it is.
struct Span {
    uint32_t low = 0, high = INFINITE;
    int64_t rank = 0;
};

constexpr int DIGITS = 1024, CHUNK = 512;

// Those of n magnitudes, n <= CHUNK, that lie in the span, to `inside` [CHUNK]; counts those above it. Returns how
// many.
static int64_t inside_of(const Span& span, const float* magnitudes, int64_t n, float* inside, int64_t* above) {
    const vf low = set1(of_bits(span.low)), high = set1(of_bits(span.high));
    int64_t found = 0;
    for (int64_t i = 0; i < n; i += W) {
        const int lanes = int(least(W, n - i));
        const vf v = load_first(magnitudes + i, lanes);
        const unsigned all = (1u << lanes) - 1, over = larger(v, high) & all, in = ~(over | larger(low, v)) & all;
        *above += __builtin_popcount(over);
        if (!in) continue;
        store_n(inside + found, packed(v, in), __builtin_popcount(in));
        found += __builtin_popcount(in);
    }
    return found;
}

// Finds the part of a span, of up to DIGITS, in which the rank-th largest of all n lies. False if it is not in the
// span.
static bool narrow(const float* magnitudes, int64_t n, int64_t rank, Span* span) {
    int32_t counts[DIGITS] = {};
    float inside[CHUNK];
    int shift = 0;
    while ((span->high - span->low) >> shift >= DIGITS) ++shift;
    int64_t above = 0;
    for (int64_t i = 0; i < n; i += CHUNK) {
        const int64_t found = inside_of(*span, magnitudes + i, least(CHUNK, n - i), inside, &above);
        for (int64_t k = 0; k < found; ++k) ++counts[(bits_of(inside[k]) - span->low) >> shift];
    }
    rank -= above;
    int digit = DIGITS - 1;
    while (digit >= 0 && rank > counts[digit]) rank -= counts[digit--];
    if (rank < 1 || digit < 0) return false;
    span->low += uint32_t(digit) << shift;
    span->high = uint32_t(least(span->high, int64_t(span->low) + (int64_t(1) << shift) - 1));
    span->rank = rank;
    return true;
}

// The cut itself, by ever shorter spans.
static bool find(const float* magnitudes, int64_t n, int64_t rank, Span* span) {
    do {
        if (!narrow(magnitudes, n, rank, span)) return false;
    } while (span->low != span->high);
    return true;
}

constexpr int64_t SAMPLE = 1024, WORTH = 16 * SAMPLE;
constexpr int64_t APART = 64;  // four standard deviations of a rank in the sample

// A span in which the cut most likely lies, as the sample tells.
static Span guess(const float* magnitudes, int64_t n, int64_t rank) {
    float sample[SAMPLE];
    for (int64_t i = 0; i < SAMPLE; ++i) sample[i] = magnitudes[i * n / SAMPLE];
    const int64_t middle = rank * SAMPLE / n, lower = middle + APART, upper = middle - APART;
    Span span, low, high;
    if (lower <= SAMPLE && find(sample, SAMPLE, lower, &low)) span.low = low.low;
    if (upper >= 1 && find(sample, SAMPLE, upper, &high)) span.high = high.high;
    return span;
}

// The cut of n magnitudes, 0 < rank <= n: a span of one value.
static Span cut_at(const float* magnitudes, int64_t n, int64_t rank) {
    if (n >= WORTH) {
        Span span = guess(magnitudes, n, rank);
        if (find(magnitudes, n, rank, &span)) return span;
    }
    Span span;
    find(magnitudes, n, rank, &span);
    return span;
}

// ---- the list -------------------------------------------------------------------------------------------------------

// put(first, lanes, bits) for words of the `count` largest of n magnitudes, in order; 0 < count <= n. Returns the cut.
template <class Put>
static float each_largest(const float* magnitudes, int64_t n, int64_t count, Put&& put) {
    const Span cut = cut_at(magnitudes, n, count);
    const vf limit = set1(of_bits(cut.low));
    int64_t equals = cut.rank;
    for (int64_t i = 0; i < n; i += W) {
        const int lanes = int(least(W, n - i));
        const vf v = load_first(magnitudes + i, lanes);
        unsigned kept = larger(v, limit);
        unsigned equal = positive_bits(keep_equal(set1(1.0f), v, limit)) & ((1u << lanes) - 1);
        for (; equal && equals > 0; equal &= equal - 1, --equals) kept |= equal & -equal;
        if (kept) put(i, lanes, kept);
    }
    return of_bits(cut.low);
}

// Keeps the `count` largest of n; returns the smallest of them.
static float shrink(Ranked list, int64_t n, int64_t count) {
    if (count == 0) return INFINITY;
    int64_t kept = 0;
    return each_largest(list.magnitudes, n, count, [&](int64_t i, int lanes, unsigned bits) {
        const vf places = load_first(reinterpret_cast<const float*>(list.places + i), lanes);
        kept = list.append(kept, load_first(list.magnitudes + i, lanes), places, bits);
    });
}

// Bits at, at + 1, ... of a bitmap of `bytes`, at least W of them; what lies behind its end reads as 0.
static inline uint32_t bits_from(const efl_uint8* bitmap, int64_t bytes, int64_t at) {
    const int64_t byte = at >> 3;
    uint32_t found = 0;
    for (int64_t b = 0; b < 3; ++b) found |= byte + b < bytes ? uint32_t(bitmap[byte + b]) << (8 * b) : 0;
    return found >> (at & 7);
}

static efl_status keep_largest_f32(const float* grad, efl_int64 size, efl_int64 first, const efl_uint8* exists,
                                   efl_int64 exists_bytes, efl_int64 count, float* magnitudes, efl_int32* places,
                                   efl_int64 capacity, efl_int32* filled, float* smallest) {
    const Ranked list{magnitudes, places};
    int64_t n = first == 0 ? 0 : *filled;
    float limit = first == 0 ? -1.0f : *smallest;
    for (int64_t run = 0; run < size; run += RUN) {
        if (n + RUN > capacity) {
            limit = shrink(list, n, count);
            n = count;
        }
        const auto look = [&](int64_t i, int lanes) __attribute__((always_inline)) {
            const vf magnitude = magnitude_of(load_first(grad + i, lanes));
            unsigned taken = larger(magnitude, set1(limit)) & ((1u << lanes) - 1);
            if (taken) taken &= ~bits_from(exists, exists_bytes, first + i);
            if (taken) n = list.append(n, magnitude, counted(int32_t(first + i)), taken);
        };
        if (run + RUN <= size)
            for (int64_t i = run; i < run + RUN; i += W) look(i, W);
        else
            for (int64_t i = run; i < size; i += W) look(i, int(least(W, size - i)));
    }
    *filled = int32_t(n);
    *smallest = limit;
    return EFL_OK;
}

static efl_status largest_places_f32(const float* magnitudes, const efl_int32* places, efl_int64,
                                     const efl_int32* filled, efl_int64 count, efl_int32* found) {
    if (count == 0) return EFL_OK;
    each_largest(magnitudes, *filled, count, [&](int64_t i, int lanes, unsigned bits) {
        const vf word = load_n(reinterpret_cast<const float*>(places + i), lanes);
        store_n(reinterpret_cast<float*>(found), packed(word, bits), __builtin_popcount(bits));
        found += __builtin_popcount(bits);
    });
    return EFL_OK;
}
