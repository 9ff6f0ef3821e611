// The families that no other part has: the bodies of one instruction set, and the function that writes them over the
// table. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../micro/rectifier.inl.h"
#include "../kernels/batch.inl.h"
#include "../kernels/lanes.inl.h"
#include "../kernels/elementwise.inl.h"
#include "../kernels/activation.inl.h"
#include "../kernels/expression.inl.h"
#include "../kernels/arrange.inl.h"
#include "../kernels/resample.inl.h"
#include "../kernels/rotary.inl.h"
#include "../micro/kept.inl.h"
#include "../kernels/dropout.inl.h"
#include "../kernels/loss.inl.h"
#include "../kernels/place_loss.inl.h"
#include "../kernels/target_loss.inl.h"
#include "../kernels/mask.inl.h"
#include "../kernels/stored_weight.inl.h"
#include "../kernels/narrow.inl.h"
#include "../kernels/stored_rows.inl.h"
#include "../kernels/growth.inl.h"

void install_plain(Table& table);
void install_plain(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/plain.h"
#undef EFL_KERNEL
}
