// The vectors of the baseline instruction set: four floats in GCC/Clang vector types, which the compiler turns into
// SSE2, NEON or plain code. Not a fast path; it must run on every 64-bit machine, with the baseline instruction set and
// nothing else.
//
// An instruction set defines, in its own namespace: W, REGISTERS, vf, and the functions over vectors below. Bodies in
// kernels/ use these names and nothing else.

constexpr int W = 4;           // floats in a vector
constexpr int REGISTERS = 16;  // vectors that the CPU's registers hold
constexpr bool READS_IN_FMA = true;
typedef float vf __attribute__((vector_size(16)));

static inline vf zero() { return vf{0, 0, 0, 0}; }
static inline vf set1(float a) { return vf{a, a, a, a}; }
static inline vf load(const float* p) {
    vf v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
// v itself, in a register: what is used twice is not read twice. And a pointer that is not taken apart.
static inline vf held(vf v) {
#if defined(__x86_64__)
    __asm__("" : "+x"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}
static inline void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
// Past the caches where the instruction set can, to an address that is a multiple of the vector's bytes. Other threads
// see what was written after `streamed`.
static inline void stream(float* p, vf v) { store(p, v); }
static inline void streamed() {}
// The first n floats (0 <= n <= W); the others read as 0 and are never touched in memory.
static inline vf load_n(const float* p, int n) {
    vf v = zero();
    __builtin_memcpy(&v, p, sizeof(float) * n);
    return v;
}
static inline void store_n(float* p, vf v, int n) { __builtin_memcpy(p, &v, sizeof(float) * n); }

static inline vf add(vf a, vf b) { return a + b; }
static inline vf sub(vf a, vf b) { return a - b; }
static inline vf mul(vf a, vf b) { return a * b; }
static inline vf div(vf a, vf b) { return a / b; }
static inline vf sqrt(vf v) {
    for (int i = 0; i < W; ++i) v[i] = std::sqrt(v[i]);
    return v;
}
// a * b + c, rounded once where the instruction set has the instruction.
static inline vf fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf max(vf a, vf b) {
    for (int i = 0; i < W; ++i) a[i] = b[i] > a[i] ? b[i] : a[i];
    return a;
}

static inline vf min(vf a, vf b) {
    for (int i = 0; i < W; ++i) a[i] = b[i] < a[i] ? b[i] : a[i];
    return a;
}
// -|v[i]|.
static inline vf minus_magnitude(vf v) {
    for (int i = 0; i < W; ++i) v[i] = -__builtin_fabsf(v[i]);
    return v;
}

// Sum of the W floats, always in the same tree: (0+2)+(1+3), and so on by halves.
static inline float sum(vf v) { return (v[0] + v[2]) + (v[1] + v[3]); }
// The largest lane. Any number if a lane is NaN.
static inline float largest_lane(vf v) {
    const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}

// Lane i: the sum of the lanes of v[i], for i < W.
static inline vf sums(const vf* v) { return vf{sum(v[0]), sum(v[1]), sum(v[2]), sum(v[3])}; }

// As sums(), each sum in an order of the instruction set's own, which is cheaper.
static inline vf totals(const vf* v) { return sums(v); }

// Bit i set where v[i] > 0 (NaN: clear), and its use: v[i] where bit i is set, else 0.
static inline unsigned positive_bits(vf v) {
    unsigned b = 0;
    for (int i = 0; i < W; ++i) b |= unsigned(v[i] > 0.0f) << i;
    return b;
}
static inline vf keep_bits(vf v, unsigned bits) {
    for (int i = 0; i < W; ++i) v[i] = bits >> i & 1 ? v[i] : 0.0f;
    return v;
}
// p[i] = v[i] where bit i is set; what lies between is not touched.
static inline void store_bits(float* p, vf v, unsigned bits) {
    for (int i = 0; i < W; ++i)
        if (bits >> i & 1) p[i] = v[i];
}

// Bit i set where a[i] > b[i].
static inline unsigned larger_bits(vf a, vf b) {
    unsigned found = 0;
    for (int i = 0; i < W; ++i) found |= unsigned(a[i] > b[i]) << i;
    return found;
}
// |v|, and infinity for what is not a number.
static inline vf magnitude(vf v) {
    int32_t bits[W];
    __builtin_memcpy(bits, &v, sizeof v);
    for (int i = 0; i < W; ++i) {
        bits[i] &= 0x7fffffff;
        bits[i] = bits[i] < 0x7f800000 ? bits[i] : 0x7f800000;
    }
    __builtin_memcpy(&v, bits, sizeof v);
    return v;
}

// Lanes 0, 2, 4, ... of a, then of b; lanes 1, 3, 5, ...; and the inverse: a0 b0 a1 b1 ..., first and second half.
static inline vf evens(vf a, vf b) { return vf{a[0], a[2], b[0], b[2]}; }
static inline vf odds(vf a, vf b) { return vf{a[1], a[3], b[1], b[3]}; }
static inline vf zip_low(vf a, vf b) { return vf{a[0], b[0], a[1], b[1]}; }
static inline vf zip_high(vf a, vf b) { return vf{a[2], b[2], a[3], b[3]}; }

// a[i] where x[i] > y[i] or x[i] is NaN, else b[i]; and v[i] where x[i] == y[i], else 0.
static inline vf if_above(vf x, vf y, vf a, vf b) {
    for (int i = 0; i < W; ++i) a[i] = (x[i] > y[i]) | (x[i] != x[i]) ? a[i] : b[i];
    return a;
}
// a[i] where x[i] <= y[i], else b[i], as where either is NaN.
static inline vf if_up_to(vf x, vf y, vf a, vf b) {
    for (int i = 0; i < W; ++i) a[i] = x[i] <= y[i] ? a[i] : b[i];
    return a;
}
static inline vf keep_equal(vf v, vf x, vf y) {
    for (int i = 0; i < W; ++i) v[i] = x[i] == y[i] ? v[i] : 0.0f;
    return v;
}
static inline vf drop_equal(vf v, vf x, vf y) {
    for (int i = 0; i < W; ++i) v[i] = x[i] == y[i] ? 0.0f : v[i];
    return v;
}
static inline vf keep_positive(vf v, vf x) {
    for (int i = 0; i < W; ++i) v[i] = x[i] > 0.0f ? v[i] : 0.0f;
    return v;
}

// As evens, odds, zip_low and zip_high, with the W lanes of the pairs in an order of the instruction set's own, which
// is cheaper; in_pair_order brings W floats into that order, half from p and half from q, or the first halves of two
// vectors.
static inline vf pair_evens(vf a, vf b) { return evens(a, b); }
static inline vf pair_odds(vf a, vf b) { return odds(a, b); }
static inline vf join_low(vf a, vf b) { return zip_low(a, b); }
static inline vf join_high(vf a, vf b) { return zip_high(a, b); }
static inline vf in_pair_order(const float* p, const float* q) { return vf{p[0], p[1], q[0], q[1]}; }
static inline vf in_pair_order(vf a, vf b) { return vf{a[0], a[1], b[0], b[1]}; }

// The lanes of v where `bits` has ones, side by side; and the inverse: where it has ones, p takes the lanes of v in
// turn.
static inline vf gather_bits(vf v, unsigned bits) {
    vf r = zero();
    for (int i = 0, n = 0; i < W; ++i)
        if (bits >> i & 1) r[n++] = v[i];
    return r;
}
static inline void scatter_bits(float* p, vf v, unsigned bits) {
    for (int i = 0, n = 0; i < W; ++i)
        if (bits >> i & 1) p[i] = v[n++];
}

// p[2 i] = from[i] for i < n; what lies between is not touched. May read W floats.
static inline void spread(float* p, const float* from, int n) {
    for (int i = 0; i < n; ++i) p[2 * i] = from[i];
}

// Lane m of to[k]: from[m][at + k], for k < 4 and m < W.
static inline void load_columns(const float* const* from, int64_t at, vf* to) {
    for (int64_t k = at; k < at + 4; ++k) *to++ = vf{from[0][k], from[1][k], from[2][k], from[3][k]};
}

// W vectors turned: lane m of v[k] becomes lane k of v[m].
__attribute__((always_inline)) static inline void turn(vf* v) {
    const vf ab = zip_low(v[0], v[1]), cd = zip_low(v[2], v[3]), after_ab = zip_high(v[0], v[1]),
             after_cd = zip_high(v[2], v[3]);
    v[0] = vf{ab[0], ab[1], cd[0], cd[1]}, v[1] = vf{ab[2], ab[3], cd[2], cd[3]};
    v[2] = vf{after_ab[0], after_ab[1], after_cd[0], after_cd[1]};
    v[3] = vf{after_ab[2], after_ab[3], after_cd[2], after_cd[3]};
}

// W bytes as floats, and floats that hold whole numbers from 0 to 255 as bytes.
static inline vf load_u8(const unsigned char* p) { return vf{float(p[0]), float(p[1]), float(p[2]), float(p[3])}; }
static inline void store_u8(unsigned char* p, vf v) {
    for (int i = 0; i < W; ++i) p[i] = (unsigned char)(v[i]);
}

// Bit i: whether byte i is not 0, of 64.
static inline uint64_t ones_of_bytes(const unsigned char* p) {
    uint64_t bits = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight;
        __builtin_memcpy(&eight, p + i, 8);
        eight |= eight >> 4;
        eight |= eight >> 2;
        eight |= eight >> 1;
        bits |= ((eight & 0x0101010101010101u) * 0x0102040810204080u) >> 56 << i;
    }
    return bits;
}

// The lanes of v whose bit is set, in order, from lane 0 on; the others are undefined.
static inline vf packed(vf v, unsigned bits) {
    vf found = v;
    for (int i = 0, k = 0; i < W; ++i) {
        found[k & (W - 1)] = v[i];
        k += bits >> i & 1;
    }
    return found;
}
// Writes the same, `count` of them, and nothing behind them.
static inline void store_packed(float* p, vf v, unsigned bits, int count) { store_n(p, packed(v, bits), count); }
// The int32 first, first + 1, ... as the bits of a vector, to be moved and stored only.
static inline vf counted(int32_t first) {
    const int32_t numbers[W] = {first, first + 1, first + 2, first + 3};
    vf v;
    __builtin_memcpy(&v, numbers, sizeof v);
    return v;
}

// 2^n for whole n in [-126, 127].
static inline vf pow2(vf n) {
    for (int i = 0; i < W; ++i) {
        const unsigned bits = unsigned(int(n[i]) + 127) << 23;
        float f;
        __builtin_memcpy(&f, &bits, 4);
        n[i] = f;
    }
    return n;
}

// W whole numbers of 32 bits: first, first + 1, ...; the same in every lane; a xor b.
struct vu {
    uint32_t lane[W];
};
static inline vu lanes_from(uint32_t first) { return vu{{first, first + 1, first + 2, first + 3}}; }
static inline vu same(uint32_t a) { return vu{{a, a, a, a}}; }
static inline vu exclusive(vu a, vu b) {
    for (int i = 0; i < W; ++i) a.lane[i] ^= b.lane[i];
    return a;
}
// The lower halves of a times b, and the upper ones.
static inline vu multiplied(vu a, uint32_t b, vu* high) {
    for (int i = 0; i < W; ++i) {
        const uint64_t whole = uint64_t(a.lane[i]) * b;
        a.lane[i] = uint32_t(whole);
        high->lane[i] = uint32_t(whole >> 32);
    }
    return a;
}
// v[i] where a[i] >= least, else 0.
static inline vf keep_from(vf v, vu a, uint32_t least) {
    for (int i = 0; i < W; ++i) v[i] = a.lane[i] >= least ? v[i] : 0.0f;
    return v;
}
// v[i] 2^n[i] for such n.
static inline vf scaled(vf v, vf n) { return mul(v, pow2(n)); }

// W floats side by side, each of which multiplies whole vectors in its turn.
struct Singles {
    const float* from;
    explicit Singles(const float* p) : from(p) {}
    vf fma(int i, vf x, vf c) const { return scalar::fma(set1(from[i]), x, c); }
};
// W float16 values, two bytes each, rounded to nearest even, infinity from 65520 on; and back. Of NaN the upper bits
// stay, as a quiet one. Without branches: what is below the normal float16 is rounded by the addition of 1/2, whose
// last bit is the smallest float16.
typedef uint32_t lane_bits __attribute__((vector_size(16)));
static inline lane_bits bits_where(lane_bits mask, lane_bits a, lane_bits b) { return (a & mask) | (b & ~mask); }
static inline void store_halves(uint8_t* p, vf v) {
    const lane_bits bits = lane_bits(v), x = bits & 0x7fffffff;
    const lane_bits normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;
    const lane_bits small = lane_bits(vf(x) + 0.5f) - 0x3f000000;
    const lane_bits finite = bits_where(lane_bits(x < (113u << 23)), small, normal);
    const lane_bits large = 0x7c00 | (lane_bits(x > 0x7f800000) & (0x200 | (x >> 13 & 0x3ff)));
    const lane_bits half = (bits >> 16 & 0x8000) | bits_where(lane_bits(x >= 0x477ff000), large, finite);
    const uint16_t halves[W] = {uint16_t(half[0]), uint16_t(half[1]), uint16_t(half[2]), uint16_t(half[3])};
    __builtin_memcpy(p, halves, sizeof halves);
}
static inline vf load_halves(const uint8_t* p) {
    uint16_t halves[W];
    __builtin_memcpy(halves, p, sizeof halves);
    const lane_bits half = {halves[0], halves[1], halves[2], halves[3]}, x = (half & 0x7fff) << 13;
    const lane_bits finite = lane_bits(vf(x) * 0x1p112f);
    const lane_bits large = x | 0x7f800000 | (lane_bits(x > 0x0f800000) & 0x00400000);
    return vf((half & 0x8000) << 16 | bits_where(lane_bits(x >= 0x0f800000), large, finite));
}
