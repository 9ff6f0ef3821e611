// ReLU with one bit per element for the backward pass, and addition.

constexpr int bit_block = 16;  // elements per step: two bytes of bits, a whole number of words on every tier

static inline unsigned relu_block(const float* x, float* y) {
    unsigned bits = 0;
    for (int k = 0; k < bit_block; k += W) {
        const vf v = load(x + k);
        bits |= positive_bits(v) << k;
        store(y + k, max(v, zero()));
    }
    return bits;
}

static inline void relu_plane(const float* x, int64_t n, float* y, uint8_t* bits) {
    int64_t i = 0;
    for (; i + bit_block <= n; i += bit_block) {
        const unsigned b = relu_block(x + i, y + i);
        if (!bits) continue;
        bits[i / 8] = uint8_t(b);
        bits[i / 8 + 1] = uint8_t(b >> 8);
    }
    if (i == n) return;
    float in[bit_block] = {0}, out[bit_block];
    memcpy(in, x + i, size_t(n - i) * sizeof(float));
    const unsigned b = relu_block(in, out);
    memcpy(y + i, out, size_t(n - i) * sizeof(float));
    if (!bits) return;
    bits[i / 8] = uint8_t(b);
    if (n - i > 8) bits[i / 8 + 1] = uint8_t(b >> 8);
}

static efl_status relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    const int64_t row = (inner + 7) / 8;
    split(planes, inner, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) relu_plane(x + p * inner, inner, y + p * inner, bits ? bits + p * row : nullptr);
    });
    return EFL_OK;
}

static inline void relu_block_backward(const float* dy, unsigned bits, float* dx) {
    for (int k = 0; k < bit_block; k += W) store(dx + k, keep_bits(load(dy + k), bits >> k & ((1u << W) - 1u)));
}

static inline void relu_plane_backward(const float* dy, const uint8_t* bits, int64_t n, float* dx) {
    int64_t i = 0;
    for (; i + bit_block <= n; i += bit_block) relu_block_backward(dy + i, unsigned(bits[i / 8]) | unsigned(bits[i / 8 + 1]) << 8, dx + i);
    if (i == n) return;
    float in[bit_block] = {0}, out[bit_block];
    memcpy(in, dy + i, size_t(n - i) * sizeof(float));
    relu_block_backward(in, unsigned(bits[i / 8]) | (n - i > 8 ? unsigned(bits[i / 8 + 1]) << 8 : 0u), out);
    memcpy(dx + i, out, size_t(n - i) * sizeof(float));
}

static efl_status relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                    efl_index channels_needed, float* dx) {
    const int64_t row = (inner + 7) / 8, needed = count_of(channels_needed, channels);
    split(batch * needed, inner, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t p = i / needed * channels + id_of(channels_needed, i % needed);
            relu_plane_backward(dy + p * inner, bits + p * row, inner, dx + p * inner);
        }
    });
    return EFL_OK;
}

static efl_status add_f32(const float* a, const float* b, efl_int64 count, float* y) {
    split(count, 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) y[i] = a[i] + b[i];
    });
    return EFL_OK;
}
