// Pooling: the bodies of one instruction set, and the function that writes them over the table.
// Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/pool/window.inl.h"
#include "../kernels/pool/strip.inl.h"
#include "../kernels/pool/max_strips.inl.h"
#include "../kernels/pool/max.inl.h"
#include "../kernels/pool/max_lanes.inl.h"
#include "../kernels/pool/average_strips.inl.h"
#include "../kernels/pool/average.inl.h"
#include "../kernels/pool/adaptive.inl.h"

void install_pool(Table& table);
void install_pool(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/pool.h"
#undef EFL_KERNEL
}
