// Products of int8 codes by every 64-bit ARM (csrc/simd/codes/scalar.h has the list of words): smull and smlal sum two
// products in 16 bits, which hold them, and sadalp adds neighbours. A vector of weights has the first two codes of each
// output, then the last two.

typedef int8_t Code;
constexpr int CODES = 4, OUTS = W, AT_ONCE = 1, MOST_VECTORS = 4, MOST_SUMS = 16;
constexpr int32_t OFFSET = 0;
typedef int32x4_t Sums;
typedef int8x16_t Weights;
typedef int8x16_t Inputs;

static inline Sums no_sums() { return vdupq_n_s32(0); }
static inline Weights load_weights(const Code* p) { return vld1q_s8(p); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    const uint8x16_t twice = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
    int32_t group;
    __builtin_memcpy(&group, p[0] + off, sizeof group);
    return vqtbl1q_s8(vreinterpretq_s8_s32(vsetq_lane_s32(group, vdupq_n_s32(0), 0)), twice);
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) {
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(a));
    pairs = vmlal_high_s8(pairs, w, a);
    return vpadalq_s16(sums, pairs);
}
static inline void store_sums(Sums sums, int32_t* to, int64_t) { vst1q_s32(to, sums); }
static inline void settle(Code* p) {
    const int16x8_t pairs = vreinterpretq_s16_s8(vld1q_s8(p));
    vst1q_s8(p, vreinterpretq_s8_s16(
                    vcombine_s16(vget_low_s16(vuzp1q_s16(pairs, pairs)), vget_low_s16(vuzp2q_s16(pairs, pairs)))));
}
