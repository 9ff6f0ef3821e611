// Dense products of features, what sequences make of them, and what a step writes into parameters: the bodies of one
// instruction set, and the function that writes them over the table. Included inside the namespace of that instruction
// set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/parameters.inl.h"
#include "../kernels/update.inl.h"
#include "../kernels/adam.inl.h"
#include "../kernels/linear/step.inl.h"
#include "../kernels/linear/chosen.inl.h"
#include "../kernels/linear/cut.inl.h"
#include "../kernels/linear/pack.inl.h"
#include "../kernels/linear/product.inl.h"
#include "../kernels/linear/linear.inl.h"
#include "../kernels/recurrent.inl.h"
#include "../kernels/attention.inl.h"
#include "../micro/kept.inl.h"
#include "../kernels/sdpa.inl.h"

void install_linear(Table& table);
void install_linear(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/linear.h"
#undef EFL_KERNEL
}
