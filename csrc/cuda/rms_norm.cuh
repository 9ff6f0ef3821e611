// Normalisation of runs of channels by their root mean square. Contracts: edgefl/kernels/table.py. A thread has a
// position of a run, and going back also a channel: every sum is one thread's.
#pragma once
#include "places.cuh"

EFL_KERNEL(rmsnorm_forward, 256) {
    const int inner = int(a.inner), width = int(a.width);
    each_position(a.count, [&](int i) {
        const int at = i / inner * width * inner + i % inner;
        float sum = 0;
        for (int c = 0; c < width; ++c) sum = fmaf(a.x[at + c * inner], a.x[at + c * inner], sum);
        const float scale = 1 / sqrtf(sum / float(width) + float(a.eps));
        a.inv_rms[i] = scale;
        for (int c = 0; c < width; ++c)
            a.y[at + c * inner] = (float(a.offset) + a.weight[c]) * (a.x[at + c * inner] * scale);
    });
}

EFL_KERNEL(rmsnorm_weight, 256) {
    const int inner = int(a.inner), width = int(a.width);
    each_position(a.outs.count, [&](int i) {
        float sum = 0;
        for (int run = 0; run < int(a.runs); ++run)
            for (int j = 0; j < inner; ++j) {
                const int at = (run * width + id_at(a.outs, i)) * inner + j;
                sum = fmaf(a.dy[at], a.x[at] * a.inv_rms[run * inner + j], sum);
            }
        a.dweight[i] = sum;
    });
}

EFL_KERNEL(rmsnorm_input, 256) {
    const int inner = int(a.inner), width = int(a.width);
    each_position(a.count, [&](int i) {
        const int at = i / inner * width * inner + i % inner;
        const float inv = a.inv_rms[i];
        float sum = 0;
        for (int c = 0; c < width; ++c)
            sum = fmaf((float(a.offset) + a.weight[c]) * a.dy[at + c * inner], a.x[at + c * inner] * inv, sum);
        sum /= float(width);
        for (int c = 0; c < width; ++c) {
            const float g = (float(a.offset) + a.weight[c]) * a.dy[at + c * inner];
            a.dx[at + c * inner] = inv * (g - a.x[at + c * inner] * inv * sum);
        }
    });
}
