// Kernels that try out the emulation itself (test_standin.py); no GPU runs them.
#include "portable.cuh"
#include "tf32_product.cuh"

// y = x with each block's values the other way round, twice. Without a barrier (bit 0: after writing, bit 1: before writing
// again) it is wrong.
struct mirror_args {
    const float* x;
    float* y;
    Size barriers;
};

EFL_KERNEL(mirror, 64) {
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

struct uneven_args {
    Size first, second;  // threads that come to one barrier, and those that come to another
};

EFL_KERNEL(uneven, 64) {
    if (int(threadIdx.x) < a.first) barrier();
    if (int(threadIdx.x) < a.second) barrier();
}

// What shared memory holds when a block begins.
struct left_over_args {
    float* y;
};

EFL_KERNEL(left_over, 1) {
    EFL_SHARED float shared[3];
    for (int i = 0; i < 3; ++i) {
        a.y[blockIdx.x * 3 + i] = shared[i];
        shared[i] = 1;
    }
}

// A one for each thread of each block, in the order of blocks and threads along x, y and z.
struct count_threads_args {
    float* y;
};

EFL_KERNEL(count_threads, 64) {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    a.y[block * blockDim.x + threadIdx.x] += 1;
}

// y [threads / 32, 16, 8] = x [threads / 32, 16, 8] z [8, 8] by one product of each warp, of its first `lanes` threads;
// then `left` is another's place in shared memory.
struct product_of_warps_args {
    const float *x, *z;
    float *y, *left;
    Size lanes;
};

EFL_KERNEL(product_of_warps, 64) {
    EFL_SHARED float shared[64];
    const int thread = int(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
    const float* const x = a.x + warp * 16 * 8;
    float* const y = a.y + warp * 16 * 8;
    float above[2] = {}, below[2] = {};
    const float left[4] = {x[g * 8 + t], x[(g + 8) * 8 + t], x[g * 8 + t + 4], x[(g + 8) * 8 + t + 4]};
    const float right[2] = {a.z[t * 8 + g], a.z[(t + 4) * 8 + g]};
    shared[thread] = float(thread);
    if (thread % 32 < a.lanes) tf32::multiply(above, below, left, right);
    a.left[thread] = shared[int(blockDim.x) - 1 - thread];
    for (int i = 0; i < 2; ++i) {
        y[g * 8 + 2 * t + i] = above[i];
        y[(g + 8) * 8 + 2 * t + i] = below[i];
    }
}

struct nothing_args {
    Size unused;
};

EFL_KERNEL(nothing, 2) {}

// ---- what the watch sees (test_watch.py) -----------------------------------------------------------------------------

// Block i stores to y[i / blocks_of_place], and loads y[i / blocks_of_place + shift] where shift is not 0.
struct store_places_args {
    float* y;
    Size blocks_of_place, shift;
};

EFL_KERNEL(store_places, 1) {
    float* const mine = a.y + blockIdx.x / a.blocks_of_place;
    const float other = a.shift ? mine[a.shift] : 0.0f;
    *mine = other + 1;
}

// Each thread stores a byte of its own.
struct store_bytes_args {
    Byte* y;
};

EFL_KERNEL(store_bytes, 64) { a.y[threadIdx.x] = Byte(threadIdx.x); }

// A warp loads floats that are so far apart, through shared memory where they are as far apart.
struct load_apart_args {
    const float* x;
    float* y;
    Size apart;
};

EFL_KERNEL(load_apart, 32) {
    EFL_SHARED float shared[32 * 32];
    const int at = int(threadIdx.x * a.apart);
    shared[at] = a.x[at];
    barrier();
    a.y[threadIdx.x] = fmaf(shared[at], 2.0f, 1.0f);
}

// A warp loads fours of shared memory.
struct load_fours_args {
    const int* fours;  // which, of each thread
    float* y;
};

EFL_KERNEL(load_fours, 32) {
    alignas(16) EFL_SHARED float shared[32 * 4];
    float four[4];
    for (int i = 0; i < 4; ++i) shared[i * 32 + threadIdx.x] = 1;
    barrier();
    read_four(shared + 4 * a.fours[threadIdx.x], four);
    a.y[threadIdx.x] = four[0] + four[1] + four[2] + four[3];
}
