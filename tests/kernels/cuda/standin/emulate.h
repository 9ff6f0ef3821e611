// A GPU's blocks, threads and barriers on one thread of the host: each thread of a block is a fiber that runs until its
// next barrier, in an order that can be chosen. Shared memory is filled with NaN before each block. It does not show the
// memory model within a warp nor limits of a launch; races and what memory is asked for are watch.h's.
//
// An operation of a warp is made when its 32 threads have come to it; one that some of them pass by fails the launch. A
// warp of which a thread waits there runs to its next barrier before other warps do anything, so that what they leave in
// shared memory is missed where a barrier is.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

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
// False, with `complaint` set, if some threads of a block end while others wait at a barrier, or some of a warp come to
// an operation of it while others do not.
bool run(const Kernel& kernel, Dim grid, Dim block, const void* arguments);
const char* complaint();
void wait();
void object(const std::string& what);  // by a thread: the launch fails after its block; the first objection is told

// Who is told of launches, if anyone (watch.cc).
struct Listener {
    virtual void launch_begins(const Kernel& kernel, Dim grid, Dim block, const void* arguments) = 0;
    virtual void block_begins() = 0;
    virtual void barrier() = 0;              // to which all threads have come, or to the block's end
    virtual std::string launch_ends() = 0;   // what was wrong with it, or nothing
};
extern Listener* listener;
unsigned running_thread();
bool is_local(const void* place);   // on the stack of the thread that runs
bool is_shared(const void* place);
bool is_held(const void* place, size_t size);  // in a block of the device's memory or a pinned one (driver.cc)

constexpr unsigned WARP = 32;
// Waits for the other threads of the warp; what each brought, by their lanes, is handed to `operate` once.
using Operation = void (*)(void* const* brought);
void meet(void* brought, Operation operate);

float rounded_to_tf32(float value);
// mma.m16n8k8 of the PTX ISA, .tf32: a thread's accumulators 0 and 1, 2 and 3, and its fragments of both inputs.
void multiply_m16n8k8(float (&above)[2], float (&below)[2], const float (&left)[4], const float (&right)[2]);

}  // namespace emulate

extern emulate::Dim threadIdx, blockIdx, blockDim, gridDim;

#define EFL_RESIDENT(threads, blocks) threads
#define EFL_KERNEL(name, threads)                                                                              \
    static void name##_body(const name##_args& a);                                                             \
    static emulate::Kernel name##_kernel(#name, threads, sizeof(name##_args), [](const void* p) {              \
        name##_body(*static_cast<const name##_args*>(p));                                                      \
    });                                                                                                        \
    static void name##_body(const name##_args& a)
#ifdef EFL_WATCH
#define EFL_DEVICE static inline __attribute__((always_inline))  // so that each use is a place of its own
#else
#define EFL_DEVICE static inline
#endif
#define EFL_SHARED static __attribute__((section("efl_shared")))
#define EFL_UNROLL
#define EFL_ROLLED
static inline void barrier() { emulate::wait(); }

#ifdef EFL_WATCH
struct alignas(16) float4 {  // whose copies are seen as accesses of 16 bytes (watch.cc)
    float x, y, z, w;
    float4() = default;
    float4(float x, float y, float z, float w) : x(x), y(y), z(z), w(w) {}
    float4(const float4& from);
    float4& operator=(const float4& from);
};
namespace emulate {
extern unsigned long long products;  // that fmaf has made
static inline float counted_fmaf(float a, float b, float c) { return ++products, fmaf(a, b, c); }
}  // namespace emulate
#define fmaf emulate::counted_fmaf
#else
struct float4 {
    float x, y, z, w;
};
#endif
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
