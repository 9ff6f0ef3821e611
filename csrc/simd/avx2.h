// The vectors of the AVX2 + FMA instruction set: eight floats. See scalar.h for what each function does.

constexpr int W = 8;
constexpr int REGISTERS = 16;
constexpr bool READS_IN_FMA = true;
typedef __m256 vf;

static inline vf zero() { return _mm256_setzero_ps(); }
static inline vf set1(float a) { return _mm256_set1_ps(a); }
static inline vf load(const float* p) { return _mm256_loadu_ps(p); }
static inline vf held(vf v) {
    __asm__("" : "+x"(v));
    return v;
}
static inline void store(float* p, vf v) { _mm256_storeu_ps(p, v); }
static inline void stream(float* p, vf v) { _mm256_stream_ps(p, v); }
static inline void streamed() { _mm_sfence(); }
static inline __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf load_n(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
// In halves: the masked store is microcoded on AMD up to Zen 3.
static inline void store_n(float* p, vf v, int n) {
    if (n == 8) return store(p, v);
    __m128 q = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, q);
        q = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64*)p, q);
        q = _mm_movehl_ps(q, q);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, q);
}

static inline vf add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf sqrt(vf v) { return _mm256_sqrt_ps(v); }
static inline vf fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf max(vf a, vf b) { return _mm256_max_ps(b, a); }
static inline vf min(vf a, vf b) { return _mm256_min_ps(b, a); }
static inline vf minus_magnitude(vf v) { return _mm256_or_ps(v, _mm256_set1_ps(-0.0f)); }

static inline float sum(vf v) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
static inline float largest_lane(vf v) {
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

static inline vf sums(const vf* v) {
    const vf a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const vf b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline vf totals(const vf* v) { return sums(v); }

static inline unsigned positive_bits(vf v) {
    return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(v, zero(), _CMP_GT_OQ)));
}
static inline unsigned larger_bits(vf a, vf b) { return unsigned(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ))); }
static inline vf magnitude(vf v) {
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_min_epi32(bits, _mm256_set1_epi32(0x7f800000)));
}
static inline __m256i set_lanes(unsigned bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(int(bits)), lane), lane);
}
static inline vf keep_bits(vf v, unsigned bits) { return _mm256_and_ps(v, _mm256_castsi256_ps(set_lanes(bits))); }
static inline void store_bits(float* p, vf v, unsigned bits) { _mm256_maskstore_ps(p, set_lanes(bits), v); }

static inline vf quarters(vf v) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8)); }
static inline vf evens(vf a, vf b) { return quarters(_mm256_shuffle_ps(a, b, 0x88)); }
static inline vf odds(vf a, vf b) { return quarters(_mm256_shuffle_ps(a, b, 0xdd)); }
static inline vf zip_low(vf a, vf b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
static inline vf zip_high(vf a, vf b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}

static inline vf if_above(vf x, vf y, vf a, vf b) {
    const vf above = _mm256_or_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_ps(b, a, above);
}
static inline vf if_up_to(vf x, vf y, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LE_OQ)); }
static inline vf keep_equal(vf v, vf x, vf y) { return _mm256_and_ps(v, _mm256_cmp_ps(x, y, _CMP_EQ_OQ)); }
static inline vf drop_equal(vf v, vf x, vf y) { return _mm256_andnot_ps(_mm256_cmp_ps(x, y, _CMP_EQ_OQ), v); }
static inline vf keep_positive(vf v, vf x) { return _mm256_and_ps(v, _mm256_cmp_ps(x, zero(), _CMP_GT_OQ)); }

static inline vf pair_evens(vf a, vf b) { return _mm256_shuffle_ps(a, b, 0x88); }
static inline vf pair_odds(vf a, vf b) { return _mm256_shuffle_ps(a, b, 0xdd); }
static inline vf join_low(vf a, vf b) { return _mm256_unpacklo_ps(a, b); }
static inline vf join_high(vf a, vf b) { return _mm256_unpackhi_ps(a, b); }
static inline vf in_pair_order(const float* p, const float* q) {
    return quarters(_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(q), 1));
}
static inline vf in_pair_order(vf a, vf b) { return quarters(_mm256_insertf128_ps(a, _mm256_castps256_ps128(b), 1)); }

static inline __m256i positions(uint64_t bytes) { return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes))); }
static inline uint64_t bytes_of(unsigned bits) { return _pdep_u64(bits, 0x0101010101010101ull) * 0xff; }
static inline vf gather_bits(vf v, unsigned bits) {
    return _mm256_permutevar8x32_ps(v, positions(_pext_u64(0x0706050403020100ull, bytes_of(bits))));
}
static inline void scatter_bits(float* p, vf v, unsigned bits) {
    const uint64_t bytes = bytes_of(bits);
    const vf spread = _mm256_permutevar8x32_ps(v, positions(_pdep_u64(0x0706050403020100ull, bytes)));
    _mm256_maskstore_ps(p, _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(int64_t(bytes))), spread);
}

static inline void spread(float* p, const float* from, int n) {
    for (int i = 0; i < n; ++i) p[2 * i] = from[i];
}

static inline void load_columns(const float* const* from, int64_t at, vf* to) {
    const auto rows = [=](int m) {
        const __m128 first = _mm_loadu_ps(from[m] + at), second = _mm_loadu_ps(from[m + 4] + at);
        return _mm256_insertf128_ps(_mm256_castps128_ps256(first), second, 1);
    };
    const vf a = rows(0), b = rows(1), c = rows(2), d = rows(3);
    const vf ab = _mm256_unpacklo_ps(a, b), cd = _mm256_unpacklo_ps(c, d);
    const vf after_ab = _mm256_unpackhi_ps(a, b), after_cd = _mm256_unpackhi_ps(c, d);
    to[0] = _mm256_shuffle_ps(ab, cd, 0x44), to[1] = _mm256_shuffle_ps(ab, cd, 0xee);
    to[2] = _mm256_shuffle_ps(after_ab, after_cd, 0x44), to[3] = _mm256_shuffle_ps(after_ab, after_cd, 0xee);
}

// Four vectors turned within each half.
static inline void turn_halves(vf* v) {
    const vf ab = _mm256_unpacklo_ps(v[0], v[1]), cd = _mm256_unpacklo_ps(v[2], v[3]);
    const vf after_ab = _mm256_unpackhi_ps(v[0], v[1]), after_cd = _mm256_unpackhi_ps(v[2], v[3]);
    v[0] = _mm256_shuffle_ps(ab, cd, 0x44), v[1] = _mm256_shuffle_ps(ab, cd, 0xee);
    v[2] = _mm256_shuffle_ps(after_ab, after_cd, 0x44), v[3] = _mm256_shuffle_ps(after_ab, after_cd, 0xee);
}

__attribute__((always_inline)) static inline void turn(vf* v) {
    turn_halves(v), turn_halves(v + 4);
    EFL_UNROLL
    for (int k = 0; k < 4; ++k) {
        const vf low = v[k], high = v[k + 4];
        v[k] = _mm256_permute2f128_ps(low, high, 0x20), v[k + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

static inline vf load_u8(const unsigned char* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
}
static inline void store_u8(unsigned char* p, vf v) {
    const __m256i words = _mm256_cvttps_epi32(v);
    const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(halves, halves));
}

static inline uint64_t ones_of_bytes(const unsigned char* p) {
    uint64_t zeros = 0;
    for (int i = 0; i < 64; i += 32) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i*)(p + i));
        const __m256i is_zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
        zeros |= uint64_t(uint32_t(_mm256_movemask_epi8(is_zero))) << i;
    }
    return ~zeros;
}

static inline vf packed(vf v, unsigned bits) {
    const uint64_t chosen = _pdep_u64(bits, 0x0101010101010101) * 0xff;  // a byte for each lane
    const uint64_t order = _pext_u64(0x0706050403020100, chosen);
    return _mm256_permutevar8x32_ps(v, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(order))));
}
static inline void store_packed(float* p, vf v, unsigned bits, int count) {
    _mm256_maskstore_ps(p, first(count), packed(v, bits));
}
static inline vf counted(int32_t first) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

static inline vf pow2(vf n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127)), 23));
}

typedef __m256i vu;
static inline vu same(uint32_t a) { return _mm256_set1_epi32(int(a)); }
static inline vu lanes_from(uint32_t first) {
    return _mm256_add_epi32(same(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vu exclusive(vu a, vu b) { return _mm256_xor_si256(a, b); }
static inline vu multiplied(vu a, uint32_t b, vu* high) {
    const vu evens = _mm256_mul_epu32(a, same(b)), odds = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), same(b));
    *high = _mm256_blend_epi32(_mm256_srli_epi64(evens, 32), odds, 0xAA);
    return _mm256_blend_epi32(evens, _mm256_slli_epi64(odds, 32), 0xAA);
}
static inline vf keep_from(vf v, vu a, uint32_t least) {
    const vu is_kept = _mm256_cmpeq_epi32(_mm256_max_epu32(a, same(least)), a);
    return _mm256_and_ps(v, _mm256_castsi256_ps(is_kept));
}
static inline vf scaled(vf v, vf n) { return mul(v, pow2(n)); }

struct Singles {
    const float* from;
    explicit Singles(const float* p) : from(p) {}
    vf fma(int i, vf x, vf c) const { return avx2::fma(set1(from[i]), x, c); }
};
static inline void store_halves(uint8_t* p, vf v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf load_halves(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
