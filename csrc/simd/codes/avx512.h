// Products of int8 codes by AVX-512 without VNNI (csrc/simd/codes/scalar.h has the list of words): pairs of codes in 16
// bits, as in avx2.h.

typedef int16_t Code;
constexpr int CODES = 2, OUTS = W, AT_ONCE = 1, MOST_VECTORS = 4, MOST_SUMS = 24;
constexpr int32_t OFFSET = 0;
typedef __m512i Sums;
typedef __m512i Weights;
typedef __m512i Inputs;

static inline Sums no_sums() { return _mm512_setzero_si512(); }
static inline Weights load_weights(const Code* p) { return _mm512_load_si512(p); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    int32_t pair;
    __builtin_memcpy(&pair, p[0] + off, sizeof pair);
    return _mm512_set1_epi32(pair);
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) {
    return _mm512_add_epi32(sums, _mm512_madd_epi16(w, a));
}
static inline void store_sums(Sums sums, int32_t* to, int64_t) { _mm512_storeu_si512(to, sums); }
static inline void settle(Code*) {}
