// The vectors of the AVX-512 instruction set (F, BW, DQ, VL): sixteen floats. See scalar.h for what each function does.

constexpr int W = 16;
constexpr int REGISTERS = 32;
constexpr bool READS_IN_FMA = true;
typedef __m512 vf;

static inline vf zero() { return _mm512_setzero_ps(); }
static inline vf set1(float a) { return _mm512_set1_ps(a); }
static inline vf load(const float* p) { return _mm512_loadu_ps(p); }
static inline vf held(vf v) {
    __asm__("" : "+v"(v));
    return v;
}
static inline void store(float* p, vf v) { _mm512_storeu_ps(p, v); }
static inline void stream(float* p, vf v) { _mm512_stream_ps(p, v); }
static inline void streamed() { _mm_sfence(); }
static inline __mmask16 first(int n) { return __mmask16((1u << n) - 1u); }
static inline vf load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
static inline void store_n(float* p, vf v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }

static inline vf add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf sqrt(vf v) { return _mm512_sqrt_ps(v); }
static inline vf fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf max(vf a, vf b) { return _mm512_max_ps(b, a); }
static inline vf min(vf a, vf b) { return _mm512_min_ps(b, a); }
static inline vf minus_magnitude(vf v) { return _mm512_or_ps(v, _mm512_set1_ps(-0.0f)); }

static inline float sum(vf v) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
static inline float largest_lane(vf v) { return _mm512_reduce_max_ps(v); }

static inline __m256 halves(vf v) { return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)); }
static inline __m256 sums_of_8(const vf* v) {
    const __m256 a =
        _mm256_hadd_ps(_mm256_hadd_ps(halves(v[0]), halves(v[1])), _mm256_hadd_ps(halves(v[2]), halves(v[3])));
    const __m256 b =
        _mm256_hadd_ps(_mm256_hadd_ps(halves(v[4]), halves(v[5])), _mm256_hadd_ps(halves(v[6]), halves(v[7])));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
static inline vf sums(const vf* v) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(sums_of_8(v)), sums_of_8(v + 8), 1);
}

static inline vf pair_totals(vf a, vf b) { return add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)); }
static inline vf quarter_totals(const vf* v) {
    const vf a = pair_totals(v[0], v[1]), b = pair_totals(v[2], v[3]);
    return add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}
static inline vf totals(const vf* v) {
    const vf a = quarter_totals(v), b = quarter_totals(v + 4), c = quarter_totals(v + 8), d = quarter_totals(v + 12);
    const vf ab = add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const vf cd = add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    return add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

static inline unsigned positive_bits(vf v) { return _mm512_cmp_ps_mask(v, zero(), _CMP_GT_OQ); }
static inline unsigned larger_bits(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline vf magnitude(vf v) {
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_min_epi32(bits, _mm512_set1_epi32(0x7f800000)));
}
static inline vf keep_bits(vf v, unsigned bits) { return _mm512_maskz_mov_ps(__mmask16(bits), v); }

static inline void store_bits(float* p, vf v, unsigned bits) { _mm512_mask_storeu_ps(p, __mmask16(bits), v); }

static inline vf evens(vf a, vf b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}
static inline vf odds(vf a, vf b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
}
static inline vf zip_low(vf a, vf b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), b);
}
static inline vf zip_high(vf a, vf b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31),
                                  b);
}

static inline vf if_above(vf x, vf y, vf a, vf b) {
    const __mmask16 above = _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_blend_ps(above, b, a);
}
static inline vf if_up_to(vf x, vf y, vf a, vf b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LE_OQ), b, a);
}
static inline vf keep_equal(vf v, vf x, vf y) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ), v); }
static inline vf drop_equal(vf v, vf x, vf y) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, _CMP_NEQ_UQ), v); }
static inline vf keep_positive(vf v, vf x) { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, zero(), _CMP_GT_OQ), v); }

static inline vf pair_evens(vf a, vf b) { return _mm512_shuffle_ps(a, b, 0x88); }
static inline vf pair_odds(vf a, vf b) { return _mm512_shuffle_ps(a, b, 0xdd); }
static inline vf join_low(vf a, vf b) { return _mm512_unpacklo_ps(a, b); }
static inline vf join_high(vf a, vf b) { return _mm512_unpackhi_ps(a, b); }
static inline vf in_pair_order(vf v) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15), v);
}
static inline vf in_pair_order(const float* p, const float* q) {
    return in_pair_order(_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(q), 1));
}
static inline vf in_pair_order(vf a, vf b) {
    return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23), b);
}

// Lanes are chosen by masks. See winners.inl.h.
#define EFL_WINNERS
struct Winners {
    vf gradients;
    __mmask16 left;

    explicit Winners(vf g) : gradients(g), left(0xffff) {}
    vf add_first(vf a, vf x, vf best, vf c) {
        const __mmask16 taken = _mm512_mask_cmp_ps_mask(left, x, best, _CMP_EQ_OQ);
        left = _kandn_mask16(taken, left);
        return _mm512_mask3_fmadd_ps(a, gradients, c, taken);
    }
    vf add_left(vf a, vf c) const { return _mm512_mask3_fmadd_ps(a, gradients, c, left); }
};

// The lanes of `bits`, from where lane 0 would lie at p: the others are 0, or of v. Other lanes are not read.
#define EFL_LOADS_LANES
static inline vf load_bits(const float* p, unsigned bits) { return _mm512_maskz_loadu_ps(__mmask16(bits), p); }
static inline vf load_over(vf v, const float* p, unsigned bits) { return _mm512_mask_loadu_ps(v, __mmask16(bits), p); }

static inline vf gather_bits(vf v, unsigned bits) { return _mm512_maskz_compress_ps(__mmask16(bits), v); }
static inline void scatter_bits(float* p, vf v, unsigned bits) {
    _mm512_mask_storeu_ps(p, __mmask16(bits), _mm512_maskz_expand_ps(__mmask16(bits), v));
}

static inline void spread(float* p, const float* from, int n) {
    const vf v = load(from);
    const unsigned positions = 0x55555555u & ((1ull << 2 * n) - 1u);
    _mm512_mask_storeu_ps(p, __mmask16(positions), zip_low(v, v));
    if (2 * n > W) _mm512_mask_storeu_ps(p + W, __mmask16(positions >> 16), zip_high(v, v));
}

static inline void load_columns(const float* const* from, int64_t at, vf* to) {
    const auto quad = [=](int m) { return _mm_loadu_ps(from[m] + at); };
    const auto rows = [=](int m) {
        const vf two = _mm512_insertf32x4(_mm512_castps128_ps512(quad(m)), quad(m + 4), 1);
        return _mm512_insertf32x4(_mm512_insertf32x4(two, quad(m + 8), 2), quad(m + 12), 3);
    };
    const vf a = rows(0), b = rows(1), c = rows(2), d = rows(3);
    const vf ab = _mm512_unpacklo_ps(a, b), cd = _mm512_unpacklo_ps(c, d);
    const vf after_ab = _mm512_unpackhi_ps(a, b), after_cd = _mm512_unpackhi_ps(c, d);
    to[0] = _mm512_shuffle_ps(ab, cd, 0x44), to[1] = _mm512_shuffle_ps(ab, cd, 0xee);
    to[2] = _mm512_shuffle_ps(after_ab, after_cd, 0x44), to[3] = _mm512_shuffle_ps(after_ab, after_cd, 0xee);
}

// Four vectors turned within each quarter.
static inline void turn_quarters(vf* v) {
    const vf ab = _mm512_unpacklo_ps(v[0], v[1]), cd = _mm512_unpacklo_ps(v[2], v[3]);
    const vf after_ab = _mm512_unpackhi_ps(v[0], v[1]), after_cd = _mm512_unpackhi_ps(v[2], v[3]);
    v[0] = _mm512_shuffle_ps(ab, cd, 0x44), v[1] = _mm512_shuffle_ps(ab, cd, 0xee);
    v[2] = _mm512_shuffle_ps(after_ab, after_cd, 0x44), v[3] = _mm512_shuffle_ps(after_ab, after_cd, 0xee);
}

__attribute__((always_inline)) static inline void turn(vf* v) {
    EFL_UNROLL
    for (int k = 0; k < 16; k += 4) turn_quarters(v + k);
    EFL_UNROLL
    for (int k = 0; k < 4; ++k) {  // quarter q of v[4 p + k] is quarter p of v[4 q + k]
        const vf a = _mm512_shuffle_f32x4(v[k], v[k + 4], 0x44), b = _mm512_shuffle_f32x4(v[k + 8], v[k + 12], 0x44);
        const vf c = _mm512_shuffle_f32x4(v[k], v[k + 4], 0xee), d = _mm512_shuffle_f32x4(v[k + 8], v[k + 12], 0xee);
        v[k] = _mm512_shuffle_f32x4(a, b, 0x88), v[k + 4] = _mm512_shuffle_f32x4(a, b, 0xdd);
        v[k + 8] = _mm512_shuffle_f32x4(c, d, 0x88), v[k + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

static inline vf load_u8(const unsigned char* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)));
}
static inline void store_u8(unsigned char* p, vf v) {
    _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
}

static inline uint64_t ones_of_bytes(const unsigned char* p) {
    const __m512i bytes = _mm512_loadu_si512(p);
    return _mm512_test_epi8_mask(bytes, bytes);
}

static inline vf packed(vf v, unsigned bits) { return _mm512_maskz_compress_ps(__mmask16(bits), v); }
static inline void store_packed(float* p, vf v, unsigned bits, int count) { store_n(p, packed(v, bits), count); }
static inline vf counted(int32_t first) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_set1_epi32(first), lanes));
}

static inline vf pow2(vf n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127)), 23));
}

typedef __m512i vu;
static inline vu same(uint32_t a) { return _mm512_set1_epi32(int(a)); }
static inline vu lanes_from(uint32_t first) {
    return _mm512_add_epi32(same(first), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline vu exclusive(vu a, vu b) { return _mm512_xor_si512(a, b); }
static inline vu multiplied(vu a, uint32_t b, vu* high) {
    const vu evens = _mm512_mul_epu32(a, same(b)), odds = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), same(b));
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(evens, 32), 0xAAAA, odds);
    return _mm512_mask_mov_epi32(evens, 0xAAAA, _mm512_slli_epi64(odds, 32));
}
static inline vf keep_from(vf v, vu a, uint32_t least) {
    return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(a, same(least)), v);
}
static inline vf scaled(vf v, vf n) { return _mm512_scalef_ps(v, n); }

struct Singles {
    const float* from;
    explicit Singles(const float* p) : from(p) {}
    vf fma(int i, vf x, vf c) const { return avx512::fma(set1(from[i]), x, c); }
};
static inline void store_halves(uint8_t* p, vf v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf load_halves(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
