// The families that no other part has: the bodies of one instruction set, and the function that writes them over the
// table. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/batch.inl.h"
#include "../kernels/lanes.inl.h"
#include "../kernels/elementwise.inl.h"
#include "../kernels/activation.inl.h"
#include "../kernels/arrange.inl.h"
#include "../kernels/dropout.inl.h"
#include "../kernels/loss.inl.h"
#include "../kernels/target_loss.inl.h"
#include "../kernels/mask.inl.h"
#include "../kernels/narrow.inl.h"
#include "../kernels/growth.inl.h"
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

void install_plain(Table& table);
void install_plain(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/plain.h"
#undef EFL_KERNEL
}
