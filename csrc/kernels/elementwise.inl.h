// Rectifiers, which keep one bit per element for the backward pass, addition and multiplication.

// Elements per step: two bytes of bits, a whole number of vectors on every instruction set.
constexpr int bit_block = 16;

// The pieces that are worked on at once: planes, or where the bits of a plane need no padding, stretches across planes.
struct Runs {
    int64_t count, length, total;

    inline Runs(int64_t planes, int64_t inner, bool merge) : total(planes * inner) {
        length = merge ? 4096 : inner;
        count = merge ? (total + length - 1) / length : planes;
    }
    inline int64_t at(int64_t i) const { return i * length; }
    inline int64_t size(int64_t i) const { return least(length, total - at(i)); }
    inline int64_t byte_at(int64_t i) const { return i * ((length + 7) / 8); }
};

// A rectifier as in micro/rectifier.inl.h.
struct LeakyReLU {
    vf slope;

    inline unsigned bits(vf x) const { return positive_bits(x); }
    inline vf value(vf x) const { return if_up_to(x, zero(), mul(slope, x), x); }
    inline vf grad(vf dy, unsigned on) const { return if_above(keep_bits(set1(1.0f), on), zero(), dy, mul(slope, dy)); }
};

template <class Rectifier>
static inline unsigned rectify_block(Rectifier f, const float* x, float* y) {
    unsigned bits = 0;
    EFL_UNROLL
    for (int k = 0; k < bit_block; k += W) {
        const vf v = load(x + k);
        bits |= f.bits(v) << k;
        store(y + k, f.value(v));
    }
    return bits;
}

// The same for the last n < bit_block elements.
template <class Rectifier>
static inline unsigned rectify_rest(Rectifier f, const float* x, int n, float* y) {
    unsigned bits = 0;
    for (int k = 0; k < n; k += W) {
        const int rest = n - k < W ? n - k : W;
        const vf v = load_n(x + k, rest);
        bits |= f.bits(v) << k;
        store_n(y + k, f.value(v), rest);
    }
    return bits;
}

template <class Rectifier>
static inline void rectify_plane(Rectifier f, const float* x, int64_t n, float* y, uint8_t* bits) {
    int64_t i = 0;
    for (; i + bit_block <= n; i += bit_block) {
        const unsigned b = rectify_block(f, x + i, y + i);
        if (!bits) continue;
        bits[i / 8] = uint8_t(b);
        bits[i / 8 + 1] = uint8_t(b >> 8);
    }
    if (i == n) return;
    const unsigned b = rectify_rest(f, x + i, int(n - i), y + i);
    if (!bits) return;
    bits[i / 8] = uint8_t(b);
    if (n - i > 8) bits[i / 8 + 1] = uint8_t(b >> 8);
}

template <class Rectifier>
static efl_status rectify(Rectifier f, const float* x, int64_t planes, int64_t inner, float* y, uint8_t* bits) {
    const Runs runs(planes, inner, !bits || inner % 8 == 0);
    split(runs.count, runs.length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t at = runs.at(i);
            rectify_plane(f, x + at, runs.size(i), y + at, bits ? bits + runs.byte_at(i) : nullptr);
        }
    });
    return EFL_OK;
}

template <class Rectifier>
static inline void rectify_plane_backward(Rectifier f, const float* dy, const uint8_t* bits, int64_t n, float* dx) {
    int64_t i = 0;
    for (; i + bit_block <= n; i += bit_block) {
        const unsigned b = unsigned(bits[i / 8]) | unsigned(bits[i / 8 + 1]) << 8;
        EFL_UNROLL
        for (int k = 0; k < bit_block; k += W) store(dx + i + k, f.grad(load(dy + i + k), b >> k & ((1u << W) - 1u)));
    }
    const int rest = int(n - i);
    const unsigned b = rest > 8 ? unsigned(bits[i / 8]) | unsigned(bits[i / 8 + 1]) << 8
                       : rest   ? unsigned(bits[i / 8])
                                : 0u;
    for (int k = 0; k < rest; k += W) {
        const int lanes = rest - k < W ? rest - k : W;
        store_n(dx + i + k, f.grad(load_n(dy + i + k, lanes), b >> k & ((1u << W) - 1u)), lanes);
    }
}

template <class Rectifier>
static efl_status rectify_backward(Rectifier f, const float* dy, const uint8_t* bits, int64_t batch, int64_t channels,
                                   int64_t inner, efl_index channels_needed, float* dx) {
    const bool all = !channels_needed.ids;
    const int64_t needed = count_of(channels_needed, channels);
    const Runs runs(batch * channels, inner, all && inner % 8 == 0);
    split(all ? runs.count : batch * needed, runs.length, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t run = all ? i : i / needed * channels + id_of(channels_needed, i % needed);
            rectify_plane_backward(f, dy + runs.at(run), bits + runs.byte_at(run), runs.size(run), dx + runs.at(run));
        }
    });
    return EFL_OK;
}

static efl_status relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    return rectify(ReLU{}, x, planes, inner, y, bits);
}

static efl_status relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                    efl_int64 inner, efl_index channels_needed, float* dx) {
    return rectify_backward(ReLU{}, dy, bits, batch, channels, inner, channels_needed, dx);
}

static efl_status relu6_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float* y, efl_uint8* bits) {
    return rectify(ReLU6{}, x, planes, inner, y, bits);
}

static efl_status leaky_relu_forward_f32(const float* x, efl_int64 planes, efl_int64 inner, float negative_slope,
                                         float* y, efl_uint8* bits) {
    return rectify(LeakyReLU{set1(negative_slope)}, x, planes, inner, y, bits);
}

static efl_status leaky_relu_backward_f32(const float* dy, const efl_uint8* bits, efl_int64 batch, efl_int64 channels,
                                          efl_int64 inner, float negative_slope, efl_index channels_needed, float* dx) {
    return rectify_backward(LeakyReLU{set1(negative_slope)}, dy, bits, batch, channels, inner, channels_needed, dx);
}

static efl_status add_f32(const float* a, const float* b, efl_int64 count, float* y) {
    split(count, 1, [=](int64_t first, int64_t last) {
        int64_t i = first;
        if constexpr (TURN > 1)
            i += write_vectors(last - i, y + i, [=](int64_t at) { return add(load(a + i + at), load(b + i + at)); });
        for (; i < last; ++i) y[i] = a[i] + b[i];
    });
    return EFL_OK;
}

static efl_status mul_f32(const float* a, const float* b, efl_int64 count, float* y) {
    split(count, 1, [=](int64_t first, int64_t last) {
        int64_t i = first;
        if constexpr (TURN > 1)
            i += write_vectors(last - i, y + i, [=](int64_t at) { return mul(load(a + i + at), load(b + i + at)); });
        for (; i < last; ++i) y[i] = a[i] * b[i];
    });
    return EFL_OK;
}

static efl_status add_channels_f32(const float* offset, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                   float* y) {
    split(batch * channels, inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float added = offset[i % channels];
            for (int64_t k = 0; k < inner; ++k) y[i * inner + k] += added;
        }
    });
    return EFL_OK;
}

static efl_status scale_channels_f32(const float* x, const float* scale, efl_int64 planes, efl_int64 inner, float* y) {
    split(planes, inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float factor = scale[i];
            for (int64_t k = 0; k < inner; ++k) y[i * inner + k] = factor * x[i * inner + k];
        }
    });
    return EFL_OK;
}

static efl_status channel_dot_f32(const float* a, const float* b, efl_int64 planes, efl_int64 inner, float* out) {
    split(planes, inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            double ignored = 0, total = 0;
            plane_sums(a + i * inner, b + i * inner, inner, &ignored, &total);
            out[i] = float(total);
        }
    });
    return EFL_OK;
}

static efl_status scale_places_f32(const float* x, const float* scale, efl_int64 batch, efl_int64 channels,
                                   efl_int64 inner, float* y) {
    split(batch * channels, inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const float* const of_image = scale + i / channels * inner;
            for (int64_t k = 0; k < inner; ++k) y[i * inner + k] = of_image[k] * x[i * inner + k];
        }
    });
    return EFL_OK;
}

static efl_status place_dot_f32(const float* a, const float* b, efl_int64 batch, efl_int64 channels, efl_int64 inner,
                                float* out) {
    split(batch, channels * inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first * inner; i < last * inner; ++i) out[i] = 0;
        for (int64_t i = first * channels; i < last * channels; ++i) {
            float* const of_image = out + i / channels * inner;
            for (int64_t k = 0; k < inner; ++k) of_image[k] += a[i * inner + k] * b[i * inner + k];
        }
    });
    return EFL_OK;
}
