// Rotary embedding: each channel of the first half of a run is rotated with a channel of the second half. Contract:
// edgefl/kernels/table.py.

// A row of n positions of both halves: cos and sin of the first half, then of the second.
static inline void rotate_rows(const float* x, const float* z, const float* const* by, bool back, int64_t n, float* y,
                               float* w) {
    for (int64_t i = 0; i < n; i += W) {
        const int lanes = int(least(W, n - i));
        const vf a = part(x + i, lanes), b = part(z + i, lanes);
        const vf first = part(by[back ? 3 : 1] + i, lanes), second = part(by[back ? 1 : 3] + i, lanes);
        const vf turned = mul(first, b), other = mul(second, a);
        const vf one = mul(part(by[0] + i, lanes), a), two = mul(part(by[2] + i, lanes), b);
        put(y + i, back ? add(one, turned) : sub(one, turned), lanes);
        put(w + i, back ? sub(two, other) : add(two, other), lanes);
    }
}

static efl_status rotary_f32(const float* x, const float* cos, const float* sin, efl_int64 batch, efl_int64 channels,
                             efl_int64 inner, efl_int64 width, efl_int32 back, float* y) {
    const int64_t half = width / 2;
    split(batch * (channels / 2), inner, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t d = i % half, at = (i / half * width + d) * inner, far = at + half * inner;
            const float* const by[] = {cos + d * inner, sin + d * inner, cos + (d + half) * inner,
                                       sin + (d + half) * inner};
            rotate_rows(x + at, x + far, by, back != 0, inner, y + at, y + far);
        }
    });
    return EFL_OK;
}
