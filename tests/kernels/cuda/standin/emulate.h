// A GPU's blocks, threads and barriers on one thread of the host: each thread of a block is a fiber that runs until its
// next barrier, in an order that can be chosen. Shared memory is filled with NaN before each block. It does not show
// races between blocks, the memory model within a warp, coalescing, nor limits of a launch.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>

namespace emulate {

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};

struct Kernel {
    using Body = void (*)(const void*);
    Kernel(const char* name, int threads, size_t arguments, Body body);
    const char* name;
    int threads;
    size_t arguments;  // bytes
    Body body;
    Kernel* next;
};

const Kernel* find(const char* name);
extern int order;  // 0 forwards, 1 backwards, 2 mixed, another way after each barrier
// False, with `complaint` set, if some threads of a block end while others wait at a barrier.
bool run(const Kernel& kernel, Dim grid, Dim block, const void* arguments);
const char* complaint();
void wait();

}  // namespace emulate

extern emulate::Dim threadIdx, blockIdx, blockDim, gridDim;

#define EFL_RESIDENT(threads, blocks) threads
#define EFL_KERNEL(name, threads, Args)                                                                   \
    static void name##_body(const Args& a);                                                               \
    static emulate::Kernel name##_kernel(#name, threads, sizeof(Args),                                    \
                                         [](const void* p) { name##_body(*static_cast<const Args*>(p)); }); \
    static void name##_body(const Args& a)
#define EFL_DEVICE static inline
#define EFL_SHARED static __attribute__((section("efl_shared")))
#define EFL_UNROLL
#define EFL_ROLLED
static inline void barrier() { emulate::wait(); }

struct float4 {
    float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
