// Normalisation: the bodies of one instruction set, and the function that writes them over the table.
// Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../micro/rectifier.inl.h"
#include "../micro/winners.inl.h"
#include "../kernels/norm/statistics.inl.h"
#include "../kernels/norm/features.inl.h"
#include "../kernels/norm/plain.inl.h"
#include "../kernels/norm/gradient.inl.h"
#include "../kernels/norm/line.inl.h"
#include "../kernels/norm/halved.inl.h"
#include "../kernels/norm/relu.inl.h"
#include "../kernels/norm/relu_eval.inl.h"
#include "../kernels/norm/lanes.inl.h"
#include "../kernels/norm/places.inl.h"
#include "../kernels/rms_norm.inl.h"

void install_norm(Table& table);
void install_norm(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/norm.h"
#undef EFL_KERNEL
}
