// The kernel bodies of one tier, and the function that writes them over the table. Included inside a tier's namespace,
// after the tier's simd words. Everything here is static: nothing of a tier may be shared with another.

#include "../kernels/index.inl.h"
#include "../math/exp.inl.h"
#include "../kernels/gather.inl.h"
#include "../kernels/block.inl.h"
#include "../kernels/reduce.inl.h"
#include "../kernels/norm.inl.h"
#include "../kernels/relu.inl.h"
#include "../kernels/window.inl.h"
#include "../kernels/maxpool.inl.h"
#include "../kernels/norm_relu.inl.h"
#include "../kernels/avgpool.inl.h"
#include "../kernels/softmax.inl.h"
#include "../kernels/sgd.inl.h"
#include "../kernels/carve.inl.h"
#include "../kernels/product.inl.h"
#include "../kernels/interleave.inl.h"
#include "../kernels/dot.inl.h"
#include "../kernels/linear.inl.h"
#include "../kernels/planes.inl.h"
#include "../kernels/correlate.inl.h"
#include "../kernels/correlate_small.inl.h"
#include "../kernels/winograd_points.inl.h"
#include "../kernels/winograd.inl.h"
#include "../kernels/conv.inl.h"
#include "../kernels/conv_grad_weight.inl.h"
#include "../kernels/conv_grad_channels.inl.h"
#include "../kernels/conv_grad_winograd.inl.h"

void install(Table& table);
void install(Table& table) {
#define EFL_ENTRY(name) table.name = name;
    EFL_KERNELS(EFL_ENTRY)
#undef EFL_ENTRY
}
