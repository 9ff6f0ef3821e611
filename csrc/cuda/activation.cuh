// Smooth activations and PReLU. Contracts: edgefl/kernels/table.py. The smooth ones are one kernel each way, which asks
// once in a value which of them it is: all threads go the same way.
#pragma once
#include "places.cuh"
#include "reduce.cuh"

struct Activation {
    int kind;  // its position in ACTIVATIONS of edgefl/kernels/table.py
    float beta, threshold;
};

EFL_DEVICE float clipped(float x, float low, float high) { return x < low ? low : x > high ? high : x; }  // NaN stays

EFL_DEVICE float sigmoid(float x) {
    const float e = expf(-fabsf(x));
    return (x >= 0 ? 1.0f : e) / (1 + e);
}

EFL_DEVICE float normal_share(float x) { return 0.5f * erfcf(x * -0.707106781f); }  // of the normal distribution

constexpr float FAR = 30.0f;  // beyond, terms of the GELUs' slopes overflow, and the slopes are 0 or 1

// x sigmoid(2 u), u = sqrt(2 / pi) (x + .044715 x^3).
EFL_DEVICE float twice_inner(float x) { return 1.59576912f * x * fmaf(x * x, 0.044715f, 1.0f); }

EFL_DEVICE float gelu_slope(float x) {
    const float near = clipped(x, -FAR, FAR);
    return fmaf(0.398942280f * near, expf(-0.5f * near * near), normal_share(near));
}

EFL_DEVICE float gelu_tanh_slope(float x) {
    const float near = clipped(x, -FAR, FAR), s = sigmoid(twice_inner(near));
    const float inner = fmaf(near * near, 0.134145f, 1.0f);
    return fmaf(1.59576912f * near * inner, s * (1 - s), s);
}

EFL_DEVICE float hardsigmoid(float x) { return clipped(fmaf(x, 1.0f / 6, 0.5f), 0.0f, 1.0f); }

EFL_DEVICE float softplus(float x, float beta, float threshold) {
    const float v = beta * x;
    return v > threshold ? x : ((v > 0 ? v : 0.0f) + log1pf(expf(-fabsf(v)))) / beta;
}

// x tanh(log(1 + e^x)). The tanh is n / d, and d (1 - tanh) is `rest`: with e = e^x, and divided by e^2x where x is
// positive.
struct MishParts {
    float e, n, rest, d;
};

EFL_DEVICE MishParts mish_parts(float x) {
    const float e = expf(-fabsf(x));
    const float n = x <= 0 ? e * (e + 2) : fmaf(2.0f, e, 1.0f), rest = x <= 0 ? 2.0f : 2 * e * e;
    return {e, n, rest, n + rest};
}

EFL_DEVICE float mish(float x) {
    const MishParts m = mish_parts(x);
    return x * (m.n / m.d);
}

EFL_DEVICE float mish_slope(float x) {
    const MishParts m = mish_parts(x);
    const float t = m.n / m.d, share = (x >= 0 ? 1.0f : m.e) / (1 + m.e);
    return fmaf(x * share, m.rest / m.d * (1 + t), t);
}

EFL_DEVICE float activated(const Activation& f, float x) {
    switch (f.kind) {
        case 0: return sigmoid(x);
        case 1: return tanhf(x);
        case 2: return x * sigmoid(x);
        case 3: return x * normal_share(x);
        case 4: return x * sigmoid(twice_inner(x));
        case 5: return hardsigmoid(x);
        case 6: return x * hardsigmoid(x);
        case 7: return softplus(x, f.beta, f.threshold);
        default: return mish(x);
    }
}

// From y of the first two, x of the others.
EFL_DEVICE float slope_of(const Activation& f, float saved) {
    const float x = saved, s = f.kind == 2 ? sigmoid(x) : 0;
    switch (f.kind) {
        case 0: return saved * (1 - saved);
        case 1: return 1 - saved * saved;
        case 2: return s * fmaf(x, 1 - s, 1.0f);
        case 3: return gelu_slope(x);
        case 4: return gelu_tanh_slope(x);
        case 5: return fabsf(x) < 3 ? 1.0f / 6 : 0.0f;
        case 6: return x >= 3 ? 1.0f : x <= -3 ? 0.0f : fmaf(x, 1.0f / 3, 0.5f);
        case 7: return f.beta * x > f.threshold ? 1.0f : sigmoid(f.beta * x);
        default: return mish_slope(x);
    }
}

EFL_KERNEL(activation_forward, 256) {
    const Activation f = {int(a.kind), float(a.beta), float(a.threshold)};
    each_position(a.count, [&](int i) { a.y[i] = activated(f, a.x[i]); });
}

EFL_KERNEL(activation_backward, 256) {
    const Activation f = {int(a.kind), float(a.beta), float(a.threshold)};
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const int at = position_of(a.chosen, i).at;
        a.dx[at] = a.dy[at] * slope_of(f, a.saved[at]);
    });
}

EFL_KERNEL(elu_forward, 256) {
    const float alpha = float(a.alpha);
    each_position(a.count, [&](int i) {
        const float x = a.x[i];
        a.y[i] = x <= 0 ? alpha * expm1f(x) : x;
    });
}

EFL_KERNEL(elu_backward, 256) {
    const float alpha = float(a.alpha);
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const int at = position_of(a.chosen, i).at;
        const float x = a.x[at];
        a.dx[at] = x <= 0 ? a.dy[at] * (alpha * expf(x)) : a.dy[at];
    });
}

// ---- PReLU: one weight, or one for each channel ------------------------------------------------------------------

EFL_KERNEL(prelu_forward, 256) {
    each_position(a.planes * a.inner, [&](int i) {
        const float slope = a.weight[a.weights == 1 ? 0 : unsigned(i) / unsigned(a.inner) % unsigned(a.channels)];
        a.y[i] = a.x[i] > 0 ? a.x[i] : slope * a.x[i];
    });
}

EFL_KERNEL(prelu_signal, 256) {
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const ChosenPosition position = position_of(a.chosen, i);
        const float slope = a.weight[a.weights == 1 ? 0 : position.channel], dy = a.dy[position.at];
        a.dx[position.at] = a.x[position.at] > 0 ? dy : slope * dy;
    });
}

// Two launches: sums of planes, 32 threads each, then of those a block a weight.
EFL_KERNEL(prelu_planes, 256) {
    EFL_SHARED float shared[256];
    const Size plane = thread_of_grid() / 32, first = plane * a.inner;
    const int lane = int(threadIdx.x) % 32, inner = plane < a.planes ? int(a.inner) : 0;
    float sum = 0;
    for (int i = lane; i < inner; i += 32) {
        const float x = a.x[first + i];
        if (!(x > 0)) sum = fmaf(a.dy[first + i], x, sum);
    }
    sum = lanes_sum<32>(sum, shared);
    if (lane == 0 && plane < a.planes) a.sums[plane] = sum;
}

EFL_KERNEL(prelu_weights, 256) {
    EFL_SHARED float shared[256];
    const int step = a.weights == 1 ? 1 : int(a.channels), count = int(a.batch * a.channels) / step;
    const int first = a.weights == 1 ? 0 : id_at(a.outs, int(blockIdx.x));
    float sum = 0;
    for (int i = int(threadIdx.x); i < count; i += 256) sum += a.sums[first + i * step];
    sum = block_sum<256>(sum, shared);
    if (threadIdx.x == 0) a.dweight[blockIdx.x] = sum;
}
