// The vectors of the NEON instruction set: four floats, and a multiply and add that rounds once. See scalar.h for what
// each function means. ARMv8.0 and nothing after it: a Cortex-A53 must run this.

constexpr int W = 4;
constexpr int REGISTERS = 32;
constexpr bool READS_IN_FMA = false;
typedef float32x4_t vf;

static inline vf zero() { return vdupq_n_f32(0); }
static inline vf set1(float a) { return vdupq_n_f32(a); }
static inline vf load(const float* p) { return vld1q_f32(p); }
static inline vf held(vf v) {
    __asm__("" : "+w"(v));
    return v;
}
static inline void store(float* p, vf v) { vst1q_f32(p, v); }
static inline void stream(float* p, vf v) { store(p, v); }
static inline void streamed() {}
static inline vf load_n(const float* p, int n) {
    if (n == W) return load(p);
    vf v = zero();
    if (n & 2) {
        v = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
        return n & 1 ? vld1q_lane_f32(p + 2, v, 2) : v;
    }
    return n & 1 ? vld1q_lane_f32(p, v, 0) : v;
}
static inline void store_n(float* p, vf v, int n) {
    if (n == W) return store(p, v);
    if (n & 2) {
        vst1_f32(p, vget_low_f32(v));
        if (n & 1) vst1q_lane_f32(p + 2, v, 2);
    } else if (n & 1) {
        vst1q_lane_f32(p, v, 0);
    }
}

static inline vf add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf sqrt(vf v) { return vsqrtq_f32(v); }
static inline vf fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf chosen(uint32x4_t which, vf a, vf b) { return vbslq_f32(which, a, b); }
static inline vf kept(vf v, uint32x4_t which) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), which));
}
static inline vf max(vf a, vf b) { return chosen(vcgtq_f32(b, a), b, a); }  // fmax would let a NaN of b through
static inline vf min(vf a, vf b) { return chosen(vcltq_f32(b, a), b, a); }
// Bounds that are numbers: a NaN of v stays, and of zeros the larger is +0.
#define EFL_CLAMPS
static inline vf at_least(vf v, float low) { return vmaxq_f32(v, set1(low)); }
static inline vf at_most(vf v, float high) { return vminq_f32(v, set1(high)); }
// v where 0 < x < high, else 0: the bits of such an x, less one, are below those of `high`, less one.
static inline vf keep_between(vf v, vf x, float high) {
    const uint32x4_t one = vdupq_n_u32(1), most = vsubq_u32(vreinterpretq_u32_f32(set1(high)), one);
    return kept(v, vcltq_u32(vsubq_u32(vreinterpretq_u32_f32(x), one), most));
}
static inline vf minus_magnitude(vf v) {
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x80000000)));
}

static inline float sum(vf v) {
    const float32x2_t pairs = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vpadds_f32(pairs);
}
static inline float largest_lane(vf v) { return vmaxvq_f32(v); }

// The two vectors' lanes 0 + 2 and 1 + 3.
static inline vf half_sums(vf a, vf b) {
    const float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);
    return add(vreinterpretq_f32_f64(vzip1q_f64(x, y)), vreinterpretq_f32_f64(vzip2q_f64(x, y)));
}
static inline vf sums(const vf* v) { return vpaddq_f32(half_sums(v[0], v[1]), half_sums(v[2], v[3])); }
static inline vf totals(const vf* v) { return sums(v); }

static inline uint32x4_t lane_bits() {
    const uint32_t lanes[W] = {1, 2, 4, 8};
    return vld1q_u32(lanes);
}
static inline unsigned bits_of(uint32x4_t which) { return vaddvq_u32(vandq_u32(which, lane_bits())); }
static inline unsigned positive_bits(vf v) { return bits_of(vcgtzq_f32(v)); }
static inline unsigned larger_bits(vf a, vf b) { return bits_of(vcgtq_f32(a, b)); }
static inline vf magnitude(vf v) {
    const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0x7fffffff));
    return vreinterpretq_f32_u32(vminq_u32(bits, vdupq_n_u32(0x7f800000)));
}
static inline vf keep_bits(vf v, unsigned bits) { return kept(v, vtstq_u32(vdupq_n_u32(bits), lane_bits())); }
static inline void store_bits(float* p, vf v, unsigned bits) {
    if (bits & 1) vst1q_lane_f32(p, v, 0);
    if (bits & 2) vst1q_lane_f32(p + 1, v, 1);
    if (bits & 4) vst1q_lane_f32(p + 2, v, 2);
    if (bits & 8) vst1q_lane_f32(p + 3, v, 3);
}

static inline vf evens(vf a, vf b) { return vuzp1q_f32(a, b); }
static inline vf odds(vf a, vf b) { return vuzp2q_f32(a, b); }
static inline vf zip_low(vf a, vf b) { return vzip1q_f32(a, b); }
static inline vf zip_high(vf a, vf b) { return vzip2q_f32(a, b); }

static inline vf if_above(vf x, vf y, vf a, vf b) {
    return chosen(vorrq_u32(vcgtq_f32(x, y), vmvnq_u32(vceqq_f32(x, x))), a, b);
}
static inline vf if_up_to(vf x, vf y, vf a, vf b) { return chosen(vcleq_f32(x, y), a, b); }
static inline vf keep_equal(vf v, vf x, vf y) { return kept(v, vceqq_f32(x, y)); }
static inline vf drop_equal(vf v, vf x, vf y) { return kept(v, vmvnq_u32(vceqq_f32(x, y))); }
static inline vf keep_positive(vf v, vf x) { return kept(v, vcgtzq_f32(x)); }

static inline vf pair_evens(vf a, vf b) { return evens(a, b); }
static inline vf pair_odds(vf a, vf b) { return odds(a, b); }
static inline vf join_low(vf a, vf b) { return zip_low(a, b); }
static inline vf join_high(vf a, vf b) { return zip_high(a, b); }
static inline vf in_pair_order(const float* p, const float* q) { return vcombine_f32(vld1_f32(p), vld1_f32(q)); }
static inline vf in_pair_order(vf a, vf b) { return vcombine_f32(vget_low_f32(a), vget_low_f32(b)); }
#define EFL_LOADS_APART
static inline void load_apart(const float* p, vf* even, vf* odd) {
    const float32x4x2_t both = vld2q_f32(p);
    *even = both.val[0], *odd = both.val[1];
}
static inline void store_joined(float* p, vf even, vf odd) { vst2q_f32(p, (float32x4x2_t{{even, odd}})); }

// By bits: which bytes of a vector go where. A byte of 255 gives zero.
static inline vf looked_up(vf v, uint64_t lanes) {
    const uint8x8_t four = vcreate_u8(lanes);  // a byte a lane: its number, or 63
    const uint8x16_t lane = vqtbl1q_u8(vcombine_u8(four, four),
                                       vcombine_u8(vcreate_u8(0x0101010100000000), vcreate_u8(0x0303030302020202)));
    const uint8x16_t bytes = vaddq_u8(vshlq_n_u8(lane, 2), vreinterpretq_u8_u32(vdupq_n_u32(0x03020100)));
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(v), bytes));
}
constexpr uint8_t NO_LANE = 63;
constexpr uint32_t side_by_side(unsigned bits) {
    uint32_t lanes = 0;
    int n = 0;
    for (unsigned i = 0; i < 4; ++i)
        if (bits >> i & 1) lanes |= i << 8 * n++;
    for (; n < 4; ++n) lanes |= uint32_t(NO_LANE) << 8 * n;
    return lanes;
}
constexpr uint32_t in_turn(unsigned bits) {
    uint32_t lanes = 0, n = 0;
    for (unsigned i = 0; i < 4; ++i) lanes |= (bits >> i & 1 ? n++ : NO_LANE) << 8 * i;
    return lanes;
}
struct Lanes {
    uint32_t gather[16] = {}, scatter[16] = {};
    constexpr Lanes() {
        for (unsigned bits = 0; bits < 16; ++bits) gather[bits] = side_by_side(bits), scatter[bits] = in_turn(bits);
    }
};
static constexpr Lanes LANES;
static inline vf gather_bits(vf v, unsigned bits) { return looked_up(v, LANES.gather[bits]); }
static inline void scatter_bits(float* p, vf v, unsigned bits) {
    store_bits(p, looked_up(v, LANES.scatter[bits]), bits);
}

static inline void spread(float* p, const float* from, int n) {
    for (int i = 0; i < n; ++i) p[2 * i] = from[i];
}

__attribute__((always_inline)) static inline void turn(vf* v) {
    const vf ab = vtrn1q_f32(v[0], v[1]), after_ab = vtrn2q_f32(v[0], v[1]);
    const vf cd = vtrn1q_f32(v[2], v[3]), after_cd = vtrn2q_f32(v[2], v[3]);
    const auto low = [](vf a, vf b) {  // clang makes two instructions of the intrinsic function
        vf lows;
        __asm__("zip1 %0.2d, %1.2d, %2.2d" : "=w"(lows) : "w"(a), "w"(b));
        return lows;
    };
    const auto high = [](vf a, vf b) {
        return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
    };
    v[0] = low(ab, cd), v[1] = low(after_ab, after_cd), v[2] = high(ab, cd), v[3] = high(after_ab, after_cd);
}

static inline void load_columns(const float* const* from, int64_t at, vf* to) {
    for (int m = 0; m < W; ++m) to[m] = load(from[m] + at);
    turn(to);
}

static inline vf load_u8(const unsigned char* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const uint16x8_t halves = vmovl_u8(vcreate_u8(four));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(halves)));
}
static inline void store_u8(unsigned char* p, vf v) {
    const uint16x4_t halves = vmovn_u32(vcvtq_u32_f32(v));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
    __builtin_memcpy(p, &four, sizeof four);
}

static inline uint64_t ones_of_bytes(const unsigned char* p) {
    const uint8x16_t lane = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const auto bits = [=](int at) {
        const uint8x16_t bytes = vld1q_u8(p + at);
        return vandq_u8(vtstq_u8(bytes, bytes), lane);
    };
    const uint8x16_t first = vpaddq_u8(bits(0), bits(16)), second = vpaddq_u8(bits(32), bits(48));
    const uint8x16_t all = vpaddq_u8(first, second);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

static inline vf packed(vf v, unsigned bits) { return gather_bits(v, bits); }
static inline void store_packed(float* p, vf v, unsigned bits, int count) { store_n(p, packed(v, bits), count); }
static inline vf counted(int32_t first) {
    const int32_t lanes[W] = {0, 1, 2, 3};
    return vreinterpretq_f32_s32(vaddq_s32(vdupq_n_s32(first), vld1q_s32(lanes)));
}

static inline vf pow2(vf n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline vf scaled(vf v, vf n) { return mul(v, pow2(n)); }

typedef uint32x4_t vu;
static inline vu same(uint32_t a) { return vdupq_n_u32(a); }
static inline vu lanes_from(uint32_t first) {
    const uint32_t lanes[W] = {0, 1, 2, 3};
    return vaddq_u32(same(first), vld1q_u32(lanes));
}
static inline vu exclusive(vu a, vu b) { return veorq_u32(a, b); }
static inline vu multiplied(vu a, uint32_t b, vu* high) {
    const uint64x2_t low_lanes = vmull_u32(vget_low_u32(a), vdup_n_u32(b));
    const uint64x2_t high_lanes = vmull_high_u32(a, same(b));
    *high = vuzp2q_u32(vreinterpretq_u32_u64(low_lanes), vreinterpretq_u32_u64(high_lanes));
    return vuzp1q_u32(vreinterpretq_u32_u64(low_lanes), vreinterpretq_u32_u64(high_lanes));
}
static inline vf keep_from(vf v, vu a, uint32_t least) { return kept(v, vcgeq_u32(a, same(least))); }

// c + x * lane i of `all`.
__attribute__((always_inline)) static inline vf fma_lane(vf x, vf all, int i, vf c) {
    return i == 0   ? vfmaq_laneq_f32(c, x, all, 0)
           : i == 1 ? vfmaq_laneq_f32(c, x, all, 1)
           : i == 2 ? vfmaq_laneq_f32(c, x, all, 2)
                    : vfmaq_laneq_f32(c, x, all, 3);
}
#define EFL_FMA_BY_LANE

// All W floats take one load, and no float has a vector of its own: the multiply-add reads a lane.
struct Singles {
    vf all;
    explicit Singles(const float* p) : all(load(p)) {}
    vf fma(int i, vf x, vf c) const { return fma_lane(x, all, i, c); }
};

// Instructions that stay where they are written, among each other: for cores that execute in order.
// N vectors side by side.
template <int N>
__attribute__((always_inline)) static inline void load_here(const float* p, vf* v) {
    if constexpr (N == 1) __asm__ volatile("ldr %q0, [%1]" : "=w"(v[0]) : "r"(p) : "memory");
    if constexpr (N == 2)
        __asm__ volatile("ldr %q0, [%2]\n\tldr %q1, [%2, #16]" : "=&w"(v[0]), "=w"(v[1]) : "r"(p) : "memory");
    if constexpr (N == 3)
        __asm__ volatile("ldr %q0, [%3]\n\tldr %q1, [%3, #16]\n\tldr %q2, [%3, #32]"
                         : "=&w"(v[0]), "=&w"(v[1]), "=w"(v[2])
                         : "r"(p)
                         : "memory");
    if constexpr (N > 3) load_here<3>(p, v), load_here<N - 3>(p + 3 * W, v + 3);
}
static inline vf load_here(const float* p, int64_t bytes) {
    vf v;
    __asm__ volatile("ldr %q0, [%1, %2]" : "=w"(v) : "r"(p), "r"(bytes) : "memory");
    return v;
}
static inline int64_t next_here(const int64_t*& p) {
    int64_t n;
    __asm__ volatile("ldr %0, [%1], #8" : "=&r"(n), "+r"(p) : : "memory");
    return n;
}
static inline const float* add_here(const float* p, int64_t bytes) {
    __asm__ volatile("add %0, %0, %1" : "+r"(p) : "r"(bytes));
    return p;
}
// c + a * lane `i` of b, rounded once.
__attribute__((always_inline)) static inline vf fma_here(vf a, vf b, int i, vf c) {
    if (i == 0) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(a), "w"(b));
    else if (i == 1) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[1]" : "+w"(c) : "w"(a), "w"(b));
    else if (i == 2) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[2]" : "+w"(c) : "w"(a), "w"(b));
    else __asm__ volatile("fmla %0.4s, %1.4s, %2.s[3]" : "+w"(c) : "w"(a), "w"(b));
    return c;
}
#define EFL_VECTORS_IN_PLACE
#if defined(__clang__) || __GNUC__ >= 10  // before it g++ has no such loads
// N vectors side by side by one instruction, two to four; it too stays where it is written.
template <int N>
__attribute__((always_inline)) static inline void load_together(const float* p, vf* v) {
    __asm__ volatile("" : : : "memory");
    if constexpr (N == 2) {
        const float32x4x2_t all = vld1q_f32_x2(p);
        for (int i = 0; i < N; ++i) v[i] = all.val[i];
    } else if constexpr (N == 3) {
        const float32x4x3_t all = vld1q_f32_x3(p);
        for (int i = 0; i < N; ++i) v[i] = all.val[i];
    } else {
        static_assert(N == 4);
        const float32x4x4_t all = vld1q_f32_x4(p);
        for (int i = 0; i < N; ++i) v[i] = all.val[i];
    }
    __asm__ volatile("" : : : "memory");
}
#define EFL_LOADS_TOGETHER
#endif
static inline void store_halves(uint8_t* p, vf v) { vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v))); }
static inline vf load_halves(const uint8_t* p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }
// 16 signed bytes as four vectors.
#define EFL_LOADS_CODES
static inline void load_codes(const uint8_t* p, vf (&v)[4]) {
    const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(p));
    const int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_high_s8(codes);
    v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), v[1] = vcvtq_f32_s32(vmovl_high_s16(low));
    v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), v[3] = vcvtq_f32_s32(vmovl_high_s16(high));
}
// 16 signed bytes of each of eight rows, turned: to[i * 8 + m] is byte i of row m times scale[m].
#define EFL_TURNS_CODES
static inline void turn_codes(const uint8_t* const (&row)[8], const vf (&scale)[2], float* to) {
    uint8x16_t four[8], two[8], all[8];  // rows that lie side by side, of a few bytes each
    for (int m = 0; m < 4; ++m) {
        const uint8x16_t a = vld1q_u8(row[m]), b = vld1q_u8(row[m + 4]);
        two[2 * m] = vzip1q_u8(a, b), two[2 * m + 1] = vzip2q_u8(a, b);
    }
    for (int half = 0; half < 2; ++half)
        for (int odd = 0; odd < 2; ++odd) {
            const uint8x16_t a = two[2 * odd + half], b = two[2 * odd + 4 + half];
            four[4 * odd + 2 * half] = vzip1q_u8(a, b), four[4 * odd + 2 * half + 1] = vzip2q_u8(a, b);
        }
    for (int k = 0; k < 4; ++k)
        all[2 * k] = vzip1q_u8(four[k], four[k + 4]), all[2 * k + 1] = vzip2q_u8(four[k], four[k + 4]);
    for (int k = 0; k < 8; ++k, to += 4 * W) {
        const int8x16_t codes = vreinterpretq_s8_u8(all[k]);
        for (int i = 0; i < 2; ++i) {
            const int16x8_t wide = i ? vmovl_high_s8(codes) : vmovl_s8(vget_low_s8(codes));
            store(to + 2 * i * W, mul(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), scale[0]));
            store(to + (2 * i + 1) * W, mul(vcvtq_f32_s32(vmovl_high_s16(wide)), scale[1]));
        }
    }
}
