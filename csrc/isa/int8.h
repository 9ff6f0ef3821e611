// Products of int8 codes: the bodies of one instruction set, and the function that writes them over the table. Included
// inside the namespace of that instruction set, after its vectors (csrc/simd). EFL_CODES names the file with its words
// for codes.

#include "micro.h"

#include EFL_CODES

#include "../kernels/int8/layer.inl.h"
#include "../kernels/int8/inputs.inl.h"
#include "../kernels/int8/weights.inl.h"
#include "../kernels/int8/tile.inl.h"
#include "../kernels/int8/regions.inl.h"
#include "../kernels/int8/int8.inl.h"

void install_int8(Table& table);
void install_int8(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/int8.h"
#undef EFL_KERNEL
}
