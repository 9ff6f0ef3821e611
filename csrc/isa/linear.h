// Dense products of features, and what a step writes into parameters: the bodies of one tier, and the function that
// writes them over the table. Included inside a tier's namespace, after its simd words.

#include "micro.h"

#include "../kernels/parameters.inl.h"
#include "../kernels/update.inl.h"
#include "../kernels/linear/step.inl.h"
#include "../kernels/linear/chosen.inl.h"
#include "../kernels/linear/cut.inl.h"
#include "../kernels/linear/pack.inl.h"
#include "../kernels/linear/product.inl.h"
#include "../kernels/linear/linear.inl.h"

void install_linear(Table& table);
void install_linear(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "../core/kernels/linear.h"
#undef EFL_KERNEL
}
