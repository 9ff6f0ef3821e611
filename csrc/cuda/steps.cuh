// The batches of many steps: each step's own copies the next of them to where its calls read it.
#pragma once
#include "portable.cuh"

EFL_KERNEL(next_batch, 256) {
    const int* const batch = a.batches + Size(*a.step) * a.size;
    for (Size i = threadIdx.x; i < a.size; i += blockDim.x) a.index[i] = batch[i];
    barrier();
    if (threadIdx.x == 0) ++*a.step;
}
