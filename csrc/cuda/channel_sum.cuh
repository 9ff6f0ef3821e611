// Sums over channels, which are the gradients of biases. Contract: csrc/edgefl.h.
#pragma once
#include "reduce.cuh"

namespace linear {

constexpr int AT_ONCE = 4;  // loads of a thread that are on their way together

// Blocks (x, y): of a chosen channel a part of its values; out [channels, parts].
EFL_KERNEL(channel_sum_planes, 256) {
    EFL_SHARED float shared[256];
    const int inner = int(a.inner), images = 256 / inner, positions = 256 % inner;  // a step's
    const Size first = blockIdx.y * a.part;
    const Size last = smaller(first + a.part, a.batch * inner);
    const Size image_size = a.all_channels * inner;
    const float* const plane = a.dy + Size(id_at(a.channels, int(blockIdx.x))) * inner;
    Size at = first + threadIdx.x;
    int image = int(at / inner), position = int(at % inner);
    float sum = 0;
    EFL_ROLLED
    while (at < last) {
        float values[AT_ONCE];
        EFL_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) {
            values[j] = at < last ? plane[image * image_size + position] : 0.0f;
            at += 256, image += images, position += positions;
            if (position >= inner) position -= inner, ++image;
        }
        EFL_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) sum += values[j];
    }
    sum = block_sum<256>(sum, shared);
    if (threadIdx.x == 0) a.out[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// dy [batch, channels]: 32 neighbouring channels by 8 examples at a time.
EFL_KERNEL(channel_sum_columns, 256) {
    EFL_SHARED float shared[256];
    const int thread = int(threadIdx.x), column = int(blockIdx.x) * 32 + thread % 32;
    float sum = 0;
    if (column < a.channels.count) {
        const float* const values = a.dy + id_at(a.channels, column);
        for (Size b = thread / 32; b < a.batch; b += 8) sum += values[b * a.all_channels];
    }
    shared[thread] = sum;
    barrier();
    if (thread >= 32 || column >= a.channels.count) return;
    EFL_ROLLED
    for (int row = 1; row < 8; ++row) sum += shared[row * 32 + thread];
    a.out[column] = sum;
}

EFL_KERNEL(channel_sum_total, 256) {
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.channels; i += threads_of_grid()) {
        float sum = 0;
        for (Size part = 0; part < a.count; ++part) sum += a.parts[i * a.count + part];
        a.out[i] = sum;
    }
}

}  // namespace linear
