// Products of int8 codes by AVX2 (csrc/simd/codes/scalar.h has the list of words): pairs of codes in 16 bits, whose
// products vpmaddwd adds exactly. vpmaddubsw would saturate.

typedef int16_t Code;
constexpr int CODES = 2, OUTS = W, AT_ONCE = 1, MOST_VECTORS = 2, MOST_SUMS = 10;
constexpr int32_t OFFSET = 0;
typedef __m256i Sums;
typedef __m256i Weights;
typedef __m256i Inputs;

static inline Sums no_sums() { return _mm256_setzero_si256(); }
static inline Weights load_weights(const Code* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    int32_t pair;
    __builtin_memcpy(&pair, p[0] + off, sizeof pair);
    return _mm256_set1_epi32(pair);
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(w, a));
}
static inline void store_sums(Sums sums, int32_t* to, int64_t) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums);
}
static inline void settle(Code*) {}
