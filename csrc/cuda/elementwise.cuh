// Rectifiers, addition, multiplication, zeroing. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"

// A thread computes 8 neighbours of a plane, which share a byte of bits. `most` and `slope` make the three rectifiers:
// y = x > 0 ? min(x, most) : slope x, NaN kept; the bit says 0 < x < most.
struct RectifyArgs {
    const float* x;
    float* y;
    Byte* bits;  // or null
    Size planes, inner;
    double slope, most;
};

EFL_DEVICE float rectified(float x, float slope, float most) {
    if (x > 0) return x < most ? x : most;
    return x <= 0 ? (slope == 0 ? 0.0f : x * slope) : x;  // NaN is neither
}

EFL_KERNEL(rectify_forward, 256, RectifyArgs) {
    const int bytes = int((a.inner + 7) / 8);
    const float slope = float(a.slope), most = float(a.most);
    for (Size i = thread_of_grid(); i < a.planes * bytes; i += threads_of_grid()) {
        const Size plane = i / bytes, first = (i % bytes) * 8, left = a.inner - first;
        const float* const x = a.x + plane * a.inner + first;
        float* const y = a.y + plane * a.inner + first;
        unsigned set = 0;
        for (int j = 0; j < 8 && j < left; ++j) {
            const float value = x[j];
            set |= unsigned(value > 0 && value < most) << j;
            y[j] = rectified(value, slope, most);
        }
        if (a.bits) a.bits[i] = Byte(set);
    }
}

struct RectifyBackArgs {
    const float* dy;
    const Byte* bits;
    float* dx;
    Ids channels;
    Size batch, all_channels, inner;
    double slope;
};

EFL_KERNEL(rectify_backward, 256, RectifyBackArgs) {
    const Size bytes = (a.inner + 7) / 8, count = a.batch * a.channels.count * a.inner;
    const float slope = float(a.slope);
    for (Size i = thread_of_grid(); i < count; i += threads_of_grid()) {
        const Size at = i % a.inner, chosen = i / a.inner;
        const Size plane = chosen / a.channels.count * a.all_channels + id_at(a.channels, int(chosen % a.channels.count));
        const float dy = a.dy[plane * a.inner + at];
        const bool is_on = a.bits[plane * bytes + at / 8] >> (at % 8) & 1;
        a.dx[plane * a.inner + at] = is_on ? dy : slope == 0 ? 0.0f : dy * slope;
    }
}
