// Normalisation and pooling: the bodies of one instruction set, and the function that writes them over the table.
// Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../micro/rectifier.inl.h"
#include "../kernels/norm/statistics.inl.h"
#include "../kernels/norm/features.inl.h"
#include "../kernels/norm/plain.inl.h"
#include "../kernels/norm/relu.inl.h"
#include "../kernels/norm/relu_eval.inl.h"
#include "../kernels/norm/lanes.inl.h"
#include "../kernels/norm/places.inl.h"
#include "../kernels/pool/window.inl.h"
#include "../kernels/pool/strip.inl.h"
#include "../kernels/pool/max_strips.inl.h"
#include "../kernels/pool/max.inl.h"
#include "../kernels/pool/max_lanes.inl.h"
#include "../kernels/pool/average_strips.inl.h"
#include "../kernels/pool/average.inl.h"
#include "../kernels/pool/adaptive.inl.h"

void install_norm(Table& table);
void install_norm(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/norm.h"
#undef EFL_KERNEL
}
