// Products of int8 codes by ARM's FEAT_DotProd (csrc/simd/codes/scalar.h has the list of words): sdot adds four
// products to each sum.

typedef int8_t Code;
constexpr int CODES = 4, OUTS = W, AT_ONCE = 1, MOST_VECTORS = 4, MOST_SUMS = 24;
constexpr int32_t OFFSET = 0;
typedef int32x4_t Sums;
typedef int8x16_t Weights;
typedef int8x16_t Inputs;

static inline Sums no_sums() { return vdupq_n_s32(0); }
static inline Weights load_weights(const Code* p) { return vld1q_s8(p); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    int32_t group;
    __builtin_memcpy(&group, p[0] + off, sizeof group);
    return vreinterpretq_s8_s32(vdupq_n_s32(group));
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) { return vdotq_s32(sums, w, a); }
static inline void store_sums(Sums sums, int32_t* to, int64_t) { vst1q_s32(to, sums); }
static inline void settle(Code*) {}
