// float32 values in fewer bits and back: as halves rounded to nearest even, and as bytes with a scale for every 256 of
// them, rounded up or down by chance.
//
// Halves are written two bytes each, without branches: what is below the normal float16 is rounded by the addition of
// 1/2, whose last bit is the smallest float16. Of bytes the largest magnitude of a block is code 127 or -127 exactly,
// and what comes back is coded alike whatever the chance: it lies within 127 * 2^-24 of a step from its code, and noise
// leaves 2^-9 of a step on either side.

namespace narrow {

constexpr int64_t BLOCK = 256;
constexpr float SMALLEST = 0x1p-100f;  // below it a block is all 0: steps would lose bits as subnormal numbers

// The largest magnitude; what is not finite is larger than what is.
static float largest_of(const float* x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    float found;
    memcpy(&found, &most, 4);
    return found < SMALLEST ? 0.0f : found;
}

static void narrow_block(const float* x, int64_t n, const uint8_t* noise, float largest, uint8_t* codes) {
    if (largest == 0 || !std::isfinite(largest)) {
        memset(codes, 128, size_t(n));
        return;
    }
    const double scale = 127.0 / double(largest);
    for (int64_t i = 0; i < n; ++i)
        codes[i] = uint8_t(int32_t(double(x[i]) * scale + (double(noise[i]) * 0x1p-8 + (128 + 0x1p-9))));
}

}  // namespace narrow

static efl_status narrow_int8_f32(const float* x, efl_int64 n, const efl_uint8* noise, float* largest,
                                  efl_uint8* codes) {
    using namespace narrow;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t count = n - at < BLOCK ? n - at : BLOCK;
        const float most = largest[at / BLOCK] = largest_of(x + at, count);
        narrow_block(x + at, count, noise + at, most, codes + at);
    }
    return EFL_OK;
}

static efl_status widen_int8_f32(const float* largest, const efl_uint8* codes, efl_int64 n, float* x) {
    for (int64_t at = 0; at < n; at += narrow::BLOCK) {
        const int64_t end = n - at < narrow::BLOCK ? n : at + narrow::BLOCK;
        const double step = double(largest[at / narrow::BLOCK]) / 127.0;
        for (int64_t i = at; i < end; ++i) x[i] = float(double(int32_t(codes[i]) - 128) * step);
    }
    return EFL_OK;
}

namespace narrow {

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline void store_half(uint8_t* halves, int64_t i, uint32_t half) {
    const uint16_t low = uint16_t(half);
    memcpy(halves + 2 * i, &low, 2);
}

static inline uint32_t load_half(const uint8_t* halves, int64_t i) {
    uint16_t half;
    memcpy(&half, halves + 2 * i, 2);
    return half;
}

static inline uint32_t to_float16(uint32_t bits) {
    const uint32_t sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    const uint32_t normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;
    const uint32_t small = bits_of(float_of(x) + 0.5f) - bits_of(0.5f);
    const uint32_t finite = x < (113u << 23) ? small : normal;
    const uint32_t large = x > 0x7f800000 ? 0x7e00 : 0x7c00;
    return sign | (x >= 0x477ff000 ? large : finite);  // from 65520 on the nearest is infinity
}

static inline uint32_t from_float16(uint32_t half) {
    const uint32_t x = (half & 0x7fff) << 13;
    const uint32_t finite = bits_of(float_of(x) * 0x1p112f);
    return (half & 0x8000) << 16 | ((half & 0x7c00) == 0x7c00 ? x | 0x7f800000 : finite);
}

static inline uint32_t to_bfloat16(uint32_t bits) {
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;  // rounding could make NaN a number
}

}  // namespace narrow

static efl_status narrow_float16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    using namespace narrow;
    for (int64_t i = 0; i < n; ++i) store_half(halves, i, to_float16(bits_of(x[i])));
    return EFL_OK;
}

static efl_status widen_float16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    using namespace narrow;
    for (int64_t i = 0; i < n; ++i) x[i] = float_of(from_float16(load_half(halves, i)));
    return EFL_OK;
}

static efl_status narrow_bfloat16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    using namespace narrow;
    for (int64_t i = 0; i < n; ++i) store_half(halves, i, to_bfloat16(bits_of(x[i])));
    return EFL_OK;
}

static efl_status widen_bfloat16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    using namespace narrow;
    for (int64_t i = 0; i < n; ++i) x[i] = float_of(load_half(halves, i) << 16);
    return EFL_OK;
}
