// float32 values as bytes with a scale for every 256 of them, rounded up or down by chance, and back.
//
// The largest magnitude of a block is code 127 or -127 exactly, and what comes back is coded alike whatever the chance:
// it lies within 127 * 2^-24 of a step from its code, and noise leaves 2^-9 of a step on either side.

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
