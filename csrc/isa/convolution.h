// Dense convolutions, forward and input gradient: the bodies of one instruction set, and the function that writes all
// convolutions over the table. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "convolution_shared.h"

#include "../kernels/convolution/correlation.inl.h"
#include "../kernels/convolution/correlate_rows.inl.h"
#include "../kernels/convolution/correlate_small.inl.h"
#include "../kernels/convolution/correlate_points.inl.h"
#include "../kernels/convolution/tile_plan.inl.h"
#include "../kernels/convolution/tile_sources.inl.h"
#include "../kernels/convolution/correlate_tiles.inl.h"
#include "../kernels/convolution/correlate_fives.inl.h"
#include "../kernels/convolution/strided_points.inl.h"
#include "../kernels/convolution/correlate_strided.inl.h"
#include "../kernels/convolution/correlate_whole.inl.h"
#include "../kernels/convolution/input_by_windows.inl.h"
#include "../kernels/convolution/input_by_nonzeros.inl.h"
#include "../kernels/convolution/convolution.inl.h"
#include "../kernels/stored_weight.inl.h"
#include "../kernels/convolution/pointwise.inl.h"

void install_convolution(Table& table);
void install_convolution(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/convolution.h"
#undef EFL_KERNEL
}
