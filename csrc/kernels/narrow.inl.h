// float32 values in fewer bits and back: as halves rounded to nearest even, and as bytes with a scale for every 256 of
// them, rounded up or down at random.
//
// Halves are two bytes each; every instruction set has its own functions for float16 halves. Of bytes the largest
// magnitude of a block is code 127 or -127 exactly, and what comes back is coded alike whatever the random draw: it
// lies within 127 * 2^-24 of a step from its code, and noise leaves 2^-9 of a step on either side.

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

static inline void store_half(uint8_t* halves, int64_t i, uint32_t half) {
    const uint16_t low = uint16_t(half);
    memcpy(halves + 2 * i, &low, 2);
}

// The last n < W values, by whole vectors.
static void store_last_halves(uint8_t* halves, const float* x, int n) {
    uint8_t vector[2 * W];
    store_halves(vector, load_n(x, n));
    memcpy(halves, vector, size_t(2 * n));
}

static void load_last_halves(float* x, const uint8_t* halves, int n) {
    uint8_t vector[2 * W] = {};
    memcpy(vector, halves, size_t(2 * n));
    store_n(x, load_halves(vector), n);
}

static inline uint32_t to_bfloat16(uint32_t bits) {
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded;  // rounding could make NaN a number
}

}  // namespace narrow

static efl_status narrow_float16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store_halves(halves + 2 * i, load(x + i));
    if (i < n) narrow::store_last_halves(halves + 2 * i, x + i, int(n - i));
    return EFL_OK;
}

static efl_status widen_float16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    int64_t i = 0;
    for (; i + W <= n; i += W) store(x + i, load_halves(halves + 2 * i));
    if (i < n) narrow::load_last_halves(x + i, halves + 2 * i, int(n - i));
    return EFL_OK;
}

static efl_status narrow_bfloat16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    using namespace narrow;
    for (int64_t i = 0; i < n; ++i) store_half(halves, i, to_bfloat16(bits_of(x[i])));
    return EFL_OK;
}

static efl_status widen_bfloat16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    StoredWeight::widen_halves(halves, n, x);
    return EFL_OK;
}
