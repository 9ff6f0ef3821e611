// Sums over a block, in an order that depends on its number of threads alone.
#pragma once
#include "portable.cuh"

// The sum of the values of every LANES neighbours of a block's threads, for each of them. LANES: a power of two that
// divides the block's threads; shared: as many as those.
template <int LANES, class T>
EFL_DEVICE T lanes_sum(T value, T* shared) {
    const int thread = int(threadIdx.x), lane = thread % LANES;
    shared[thread] = value;
    for (int half = LANES / 2; half > 0; half /= 2) {
        barrier();
        if (lane < half) shared[thread] += shared[thread + half];
    }
    barrier();
    const T total = shared[thread - lane];
    barrier();  // shared may be used again
    return total;
}

// The sum of all threads' values, for every thread. THREADS, a power of two, are in the block; shared [THREADS].
template <int THREADS, class T>
EFL_DEVICE T block_sum(T value, T* shared) {
    return lanes_sum<THREADS>(value, shared);
}
