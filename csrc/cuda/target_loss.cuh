// Losses of outputs against as many targets: binary cross-entropy, squared and absolute error, Huber's. Not those of a
// label for a row (loss.cuh). Contracts: edgefl/kernels/table.py.
#pragma once
#include "loss.cuh"
#include "places.cuh"

// A loss, and its derivative by y.
struct Loss {
    float value, slope;
};

struct Binary {};
struct Squared {};
struct Absolute {};
struct Huber {};

EFL_DEVICE Loss loss_of(Binary, const TargetArgs& a, int i, float x, float t) {
    const float asked = (a.weight ? a.weight[unsigned(i) % unsigned(a.outputs)] : 1.0f) * t, against = 1 - t;
    const float e = expf(-fabsf(x)), rest = log1pf(e), high = 1 / (1 + e), low = e / (1 + e);
    const float value = asked * (rest + (x < 0 ? -x : 0.0f)) + against * (rest + (x > 0 ? x : 0.0f));
    return {value, against * (x > 0 ? high : low) - asked * (x > 0 ? low : high)};
}

EFL_DEVICE Loss loss_of(Squared, const TargetArgs&, int, float y, float t) { return {(y - t) * (y - t), 2 * (y - t)}; }

EFL_DEVICE Loss loss_of(Absolute, const TargetArgs&, int, float y, float t) {
    const float d = y - t;
    return {fabsf(d), d > 0 ? 1.0f : d < 0 ? -1.0f : d * 0};
}

// With c the difference d cut off at delta, c (d - c / 2): d^2 / 2 inside, delta (|d| - delta / 2) outside.
EFL_DEVICE Loss loss_of(Huber, const TargetArgs& a, int, float y, float t) {
    const float d = y - t, delta = float(a.delta), cut = d < -delta ? -delta : d > delta ? delta : d;
    return {cut * (d - cut / 2), cut};
}

template <class Kind>
EFL_DEVICE void sum_losses(const TargetArgs& a, double* shared) {
    const float scale = float(1.0 / double(a.count));
    double loss = 0, correct = 0;
    each_position(a.count, [&](int i) {
        const float y = a.y[i], t = a.targets[i];
        const Loss found = loss_of(Kind{}, a, i, y, t);
        loss += double(found.value);
        correct += y == y && (y > 0) == (t > 0.5f);
        if (a.dy) a.dy[i] = found.slope * scale;
    });
    keep_sums(a.sums, loss / double(a.outputs), correct, shared);
}

EFL_KERNEL(binary_cross_entropy, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    sum_losses<Binary>(a, shared);
}

EFL_KERNEL(squared_error, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    sum_losses<Squared>(a, shared);
}

EFL_KERNEL(absolute_error, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    sum_losses<Absolute>(a, shared);
}

EFL_KERNEL(huber, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    sum_losses<Huber>(a, shared);
}
