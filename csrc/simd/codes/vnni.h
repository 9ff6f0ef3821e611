// Products of int8 codes by AVX-512 VNNI (csrc/simd/codes/scalar.h has the list of words). vpdpbusd multiplies unsigned
// by signed bytes, so inputs have 128 added, and sums begin at -128 times the sum of their weights. Sums that leave 32
// bits on the way come back.

typedef uint8_t Code;
constexpr int CODES = 4, OUTS = W, AT_ONCE = 1, MOST_VECTORS = 4, MOST_SUMS = 24;
constexpr int32_t OFFSET = 128;
typedef __m512i Sums;
typedef __m512i Weights;
typedef __m512i Inputs;

static inline Sums no_sums() { return _mm512_setzero_si512(); }
static inline Weights load_weights(const Code* p) { return _mm512_load_si512(p); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    int32_t group;
    __builtin_memcpy(&group, p[0] + off, sizeof group);
    return _mm512_set1_epi32(group);
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) { return _mm512_dpbusd_epi32(sums, a, w); }
static inline void store_sums(Sums sums, int32_t* to, int64_t) { _mm512_storeu_si512(to, sums); }
static inline void settle(Code*) {}
