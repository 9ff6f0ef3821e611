// The words of the AVX2 + FMA tier: eight floats. See scalar.h for what each word means.

constexpr int W = 8;
typedef __m256 vf;

static inline vf zero() { return _mm256_setzero_ps(); }
static inline vf set1(float a) { return _mm256_set1_ps(a); }
static inline vf load(const float* p) { return _mm256_loadu_ps(p); }
static inline void store(float* p, vf v) { _mm256_storeu_ps(p, v); }
static inline __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf load_n(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
// A copy through the stack: the masked store is microcoded on AMD up to Zen 3.
static inline void store_n(float* p, vf v, int n) { __builtin_memcpy(p, &v, sizeof(float) * n); }

static inline vf add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf max(vf a, vf b) { return _mm256_max_ps(b, a); }

static inline float sum(vf v) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

static inline vf sums(const vf* v) {
    const vf a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const vf b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline unsigned positive_bits(vf v) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(v, zero(), _CMP_GT_OQ))); }
static inline vf keep_bits(vf v, unsigned bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(int(bits)), lane), lane);
    return _mm256_and_ps(v, _mm256_castsi256_ps(set));
}
