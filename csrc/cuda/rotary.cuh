// Rotary positions. Contract: edgefl/kernels/table.py. A thread has a position of a channel of both halves of a run.
#pragma once
#include "places.cuh"

EFL_KERNEL(rotary, 256) {
    const int inner = int(a.inner), half = int(a.width) / 2;
    each_position(a.count, [&](int i) {
        const int within = i % inner, d = i / inner % half, run = i / inner / half;
        const int at = (run * int(a.width) + d) * inner + within, far = at + half * inner;
        const int low = d * inner + within, high = low + half * inner;
        const float x = a.x[at], z = a.x[far], sign = a.back ? -1.0f : 1.0f;
        const float first = sign * a.sin[a.back ? high : low], second = sign * a.sin[a.back ? low : high];
        a.y[at] = a.cos[low] * x - first * z;
        a.y[far] = a.cos[high] * z + second * x;
    });
}
