// Convolutions with sparse weights: the bodies of one instruction set, and the function that writes them over the
// table. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/sparse_convolution/patterns.inl.h"
#include "../kernels/sparse_convolution/structure.inl.h"
#include "../kernels/sparse_convolution/cells.inl.h"
#include "../kernels/sparse_convolution/results.inl.h"
#include "../kernels/sparse_convolution/tiles.inl.h"
#include "../kernels/sparse_convolution/maps.inl.h"
#include "../kernels/sparse_convolution/gradients.inl.h"
#include "../kernels/sparse_convolution/sparse_convolution.inl.h"

void install_sparse_convolution(Table& table);
void install_sparse_convolution(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/sparse_convolution.h"
#undef EFL_KERNEL
}
