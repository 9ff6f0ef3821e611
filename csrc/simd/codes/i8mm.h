// Products of int8 codes by ARM's FEAT_I8MM (csrc/simd/codes/scalar.h has the list of words): smmla adds eight products
// to each of four sums, of two positions and two outputs.

typedef int8_t Code;
constexpr int CODES = 8, OUTS = 2, AT_ONCE = 2, MOST_VECTORS = 4, MOST_SUMS = 20;
constexpr int32_t OFFSET = 0;
typedef int32x4_t Sums;
typedef int8x16_t Weights;
typedef int8x16_t Inputs;

static inline Sums no_sums() { return vdupq_n_s32(0); }
static inline Weights load_weights(const Code* p) { return vld1q_s8(p); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    return vcombine_s8(vld1_s8(p[0] + off), vld1_s8(p[1] + off));
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) { return vmmlaq_s32(sums, a, w); }
static inline void store_sums(Sums sums, int32_t* to, int64_t pitch) {
    vst1_s32(to, vget_low_s32(sums));
    vst1_s32(to + pitch, vget_high_s32(sums));
}
static inline void settle(Code*) {}
