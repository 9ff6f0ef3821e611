// Sums over a block, in an order that depends on its number of threads alone.
#pragma once
#include "portable.cuh"

// The sum of all threads' values, for every thread. THREADS, a power of two, are in the block; shared [THREADS].
template <int THREADS, class T>
EFL_DEVICE T block_sum(T value, T* shared) {
    const int thread = int(threadIdx.x);
    shared[thread] = value;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        barrier();
        if (thread < half) shared[thread] += shared[thread + half];
    }
    barrier();
    const T total = shared[0];
    barrier();  // shared may be used again
    return total;
}
