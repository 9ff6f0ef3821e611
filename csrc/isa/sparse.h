// Linear layers with sparse weights: the bodies of one instruction set, and the function that writes them over the
// table. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/sparse_linear/structure.inl.h"
#include "../kernels/sparse_linear/panels.inl.h"
#include "../kernels/sparse_linear/products.inl.h"
#include "../kernels/sparse_linear/sparse_linear.inl.h"

void install_sparse(Table& table);
void install_sparse(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/sparse.h"
#undef EFL_KERNEL
}
