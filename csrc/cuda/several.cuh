// Calls of one kernel in one launch: a step updates many parameters, most of them small. Which calls may be joined, and
// how their arguments are laid out, is edgefl/kernels/cuda/batched_calls.py's. No kernels.
#pragma once
#include "portable.cuh"

// The call of this block, the thread's position among the call's threads, and how many these are.
struct Turn {
    int call;
    Size thread, threads;
};

template <class Args, int CALLS>
EFL_DEVICE Turn turn_of(const Several<Args, CALLS>& several) {
    const Size* const first = several.first;
    int call = 0;
    EFL_ROLLED
    while (blockIdx.x >= first[call + 1]) ++call;
    return {call, (blockIdx.x - first[call]) * blockDim.x + threadIdx.x, (first[call + 1] - first[call]) * blockDim.x};
}
