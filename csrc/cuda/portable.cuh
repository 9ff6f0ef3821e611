// What the kernels are written in. nvcc compiles it for a GPU; tests/kernels/cuda/standin compiles the same sources as
// plain C++ and emulates blocks, threads and barriers (emulate.h there). Nothing else of CUDA is used: no warp
// functions but tf32_product.cuh's, no atomics, no dynamic shared memory, so that each result is the same every time
// and what is tested is what runs.
//
// A kernel takes one struct, KERNEL_args, whose fields have 8 bytes each: pointers, Size or double. A build makes the
// structs from rows in edgefl/kernels/cuda/<family>.py (structs.py there says how to read them). Arithmetic is not
// contracted (-fmad=false): where a product is to be fused with a sum, the kernel says fmaf.
#pragma once

using Size = long long;  // of fields; inside a kernel extents are int where they fit, which is faster
using Byte = unsigned char;
#include "cuda/arguments.cuh"  // generated

#ifdef __CUDACC__
// EFL_KERNEL(name, most threads of a block) { body, which reads `a` }
// EFL_RESIDENT(threads, blocks), for its threads: registers for so many blocks at a time on a processor
#define EFL_RESIDENT(threads, blocks) threads, blocks
#define EFL_KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name(const name##_args a)
#define EFL_DEVICE static __device__ __forceinline__
#define EFL_SHARED __shared__  // inside the body of an EFL_KERNEL only; hand pointers on
#define EFL_UNROLL _Pragma("unroll")
#define EFL_ROLLED _Pragma("unroll 1")  // of itself nvcc makes four copies of a loop's body
EFL_DEVICE void barrier() { __syncthreads(); }
#else
#include "emulate.h"
#endif

template <class T>
EFL_DEVICE T smaller(T a, T b) {
    return b < a ? b : a;
}

template <class T>
EFL_DEVICE T larger(T a, T b) {
    return a < b ? b : a;
}

// Four neighbours, on 16 bytes.
EFL_DEVICE void read_four(const float* from, float* to) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// Ids of channels, rows or columns: the i-th of them, of a list or of all.
EFL_DEVICE int id_at(const Ids& ids, int i) { return ids.list ? ids.list[i] : i; }

// The position of this thread among all of a launch with blocks in a row, and how many there are.
EFL_DEVICE Size thread_of_grid() { return Size(blockIdx.x) * blockDim.x + threadIdx.x; }
EFL_DEVICE Size threads_of_grid() { return Size(gridDim.x) * blockDim.x; }
