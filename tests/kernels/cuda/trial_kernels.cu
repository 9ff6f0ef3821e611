// Kernels that try out the emulation itself (test_standin.py); no GPU runs them.
#include "portable.cuh"

// y = x with each block's values the other way round, twice. Without a barrier (bit 0: after writing, bit 1: before writing
// again) it is wrong.
struct MirrorArgs {
    const float* x;
    float* y;
    Size barriers;
};

EFL_KERNEL(mirror, 64, MirrorArgs) {
    EFL_SHARED float shared[64];
    const int thread = int(threadIdx.x), threads = int(blockDim.x);
    for (int turn = 0; turn < 2; ++turn) {
        const int at = turn * threads + thread;
        shared[thread] = a.x[at];
        if (a.barriers & 1) barrier();
        a.y[at] = shared[threads - 1 - thread];
        if (a.barriers & 2) barrier();
    }
}

struct UnevenArgs {
    Size first, second;  // threads that come to one barrier, and those that come to another
};

EFL_KERNEL(uneven, 64, UnevenArgs) {
    if (int(threadIdx.x) < a.first) barrier();
    if (int(threadIdx.x) < a.second) barrier();
}

// What shared memory holds when a block begins.
struct LeftArgs {
    float* y;
};

EFL_KERNEL(left_over, 1, LeftArgs) {
    EFL_SHARED float shared[3];
    for (int i = 0; i < 3; ++i) {
        a.y[blockIdx.x * 3 + i] = shared[i];
        shared[i] = 1;
    }
}

// A one for each thread of each block, in the order of blocks and threads along x, y and z.
struct CountArgs {
    float* y;
};

EFL_KERNEL(count_threads, 64, CountArgs) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    a.y[block * blockDim.x + threadIdx.x] += 1;
}

struct NothingArgs {
    Size unused;
};

EFL_KERNEL(nothing, 2, NothingArgs) {}
