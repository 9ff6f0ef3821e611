// Convolutions whose groups have one input channel each: little arithmetic, so that memory sets their pace. A block has
// one channel, whose weights all its threads read together. Not a product of tiles: see convolution.cuh for those.
#pragma once
#include "reduce.cuh"
#include "window.cuh"

namespace convolution {

constexpr int STRIP = 4;  // cells of a column that a thread computes; those of its neighbours lie side by side

// What a strip's cells get from one source plane.
EFL_DEVICE void add_taps(const WindowArgs& a, const Work& work, const float* plane, const float* weight, int top,
                         int left, float (&sum)[STRIP]) {
    const int height = int(a.h.source), width = int(a.w.source), down = work.h.step, apart = work.h.apart;
    for (int x = 0; x < work.w.taps; ++x) {
        const int w = left + x * work.w.apart;
        if (unsigned(w) >= unsigned(width)) continue;
        const float* const taps = weight + work.w.first_tap + x * work.w.tap_step;
        for (int y = 0; y < work.h.taps; ++y) {
            const float tap = taps[(work.h.first_tap + y * work.h.tap_step) * int(a.w.kernel)];
            EFL_UNROLL
            for (int j = 0; j < STRIP; ++j) {
                const int h = top + y * apart + j * down;
                sum[j] = fmaf(tap, unsigned(h) < unsigned(height) ? plane[h * width + w] : 0.0f, sum[j]);
            }
        }
    }
}

}  // namespace convolution

// Forward and dx. column_tiles: of 256 strips. Forward a channel of the target reads one of the source, backward those
// of its group that are active.
EFL_KERNEL(convolution_depthwise, EFL_RESIDENT(256, 3)) {
    using namespace convolution;
    EFL_SHARED Work work;
    int block = int(blockIdx.x);
    const int tile = taken(block, a.column_tiles);
    find_axes(a, taken(block, a.phases), work);
    const int channel = id_at(a.rows, block), group = channel / int(a.target_channels / a.groups);
    const int size = int(a.source_channels / a.groups);
    find_range(a.depths, group * size, (group + 1) * size, work.depths);
    barrier();
    const int strips = (work.h.cells + STRIP - 1) / STRIP, taps = int(a.h.kernel * a.w.kernel);
    int image = tile * int(blockDim.x) + int(threadIdx.x);
    const int w = taken(image, work.w.cells), h = taken(image, strips) * STRIP;
    if (image >= int(a.batch)) return;
    const int top = h * work.h.step + work.h.first, left = w * work.w.step + work.w.first;
    float sum[STRIP] = {};
    for (int i = work.depths.first; i < work.depths.last; ++i) {
        const int from = id_at(a.depths, i), weight = (a.is_back ? from : channel) * taps;
        const float* const plane = a.source + (Size(image) * a.source_channels + from) * a.h.source * a.w.source;
        add_taps(a, work, plane, a.weight + weight, top, left, sum);
    }
    const float bias = a.bias ? a.bias[channel] : 0.0f;
    float* const plane = a.target + (Size(image) * a.target_channels + channel) * a.h.target * a.w.target;
    EFL_UNROLL
    for (int j = 0; j < STRIP; ++j) {
        const int line = ((h + j) * work.h.cell_step + work.h.first_cell) * int(a.w.target);
        if (h + j < work.h.cells) plane[line + w * work.w.cell_step + work.w.first_cell] = sum[j] + bias;
    }
}

namespace convolution {

constexpr int TAPS = 9;  // that a thread sums at a time

// sums[t] over all threads, in sums of thread 0; shared [TAPS][256].
EFL_DEVICE void sum_taps(float (&sums)[TAPS], float (*shared)[256]) {
    const int thread = int(threadIdx.x);
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) shared[t][thread] = sums[t];
    for (int half = 128; half > 0; half /= 2) {
        barrier();
        if (thread >= half) continue;
        EFL_UNROLL
        for (int t = 0; t < TAPS; ++t) shared[t][thread] += shared[t][thread + half];
    }
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) sums[t] = shared[t][thread];
}

// The plane of x that the `chosen`-th of outs reads: its group's, or, if x holds only those of active groups, the one
// of that rank.
EFL_DEVICE int plane_of(const WeightArgs& a, int chosen, int* shared) {
    const int size = int(a.out_channels / a.groups), group = id_at(a.outs, chosen) / size;
    if (a.x_channels == a.groups || !a.outs.list) return group;
    int groups = 0;
    for (int i = int(threadIdx.x); i < chosen; i += int(blockDim.x)) {
        groups += a.outs.list[i] / size != a.outs.list[i + 1] / size;
    }
    return block_sum<256>(groups, shared);
}

}  // namespace convolution

// dw of one channel. row_tiles: of TAPS taps; a split takes cells of all images.
EFL_KERNEL(convolution_depthwise_weight, 256) {
    using namespace convolution;
    EFL_SHARED float shared[TAPS][256];
    EFL_SHARED int counts[256];
    int block = int(blockIdx.x);
    const int kernel = int(a.h.kernel * a.w.kernel), first_tap = taken(block, a.row_tiles) * TAPS;
    const int chosen = taken(block, a.outs.count), split = block, channel = id_at(a.outs, chosen);
    const int plane = plane_of(a, chosen, counts), height = int(a.h.source), width = int(a.w.source);
    const int cells = int(a.h.target * a.w.target), count = int(a.batch) * cells;
    int downs[TAPS], rights[TAPS];
    float sums[TAPS];
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) {
        const int tap = smaller(first_tap + t, kernel - 1);
        downs[t] = tap / int(a.w.kernel) * int(a.h.dilation) - int(a.h.padding);
        rights[t] = tap % int(a.w.kernel) * int(a.w.dilation) - int(a.w.padding);
        sums[t] = 0;
    }
    for (int i = split * 256 + int(threadIdx.x); i < count; i += int(a.splits) * 256) {
        const int image = i / cells, cell = i % cells;
        const int top = cell / int(a.w.target) * int(a.h.stride), left = cell % int(a.w.target) * int(a.w.stride);
        const float dy = a.dy[(image * int(a.out_channels) + channel) * cells + cell];
        const float* const x = a.x + Size(image * int(a.x_channels) + plane) * height * width;
        EFL_UNROLL
        for (int t = 0; t < TAPS; ++t) {
            const int h = top + downs[t], w = left + rights[t];
            const bool is_inside = unsigned(h) < unsigned(height) && unsigned(w) < unsigned(width);
            sums[t] = fmaf(dy, is_inside ? x[h * width + w] : 0.0f, sums[t]);
        }
    }
    sum_taps(sums, shared);
    if (threadIdx.x > 0) return;
    float* const dw = a.dw + (Size(split) * a.outs.count + chosen) * kernel;
    EFL_UNROLL
    for (int t = 0; t < TAPS; ++t) {
        if (first_tap + t < kernel) dw[first_tap + t] = sums[t];
    }
}
