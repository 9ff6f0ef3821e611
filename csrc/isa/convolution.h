// Dense convolutions: the bodies of one instruction set, and the function that writes them over the table. Included
// inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../kernels/convolution/axis.inl.h"
#include "../kernels/convolution/cells.inl.h"
#include "../kernels/convolution/planes.inl.h"
#include "../kernels/convolution/winograd_points.inl.h"
#include "../kernels/convolution/correlation.inl.h"
#include "../kernels/convolution/correlate_rows.inl.h"
#include "../kernels/convolution/correlate_small.inl.h"
#include "../kernels/convolution/correlate_tiles.inl.h"
#include "../kernels/convolution/five_points.inl.h"
#include "../kernels/convolution/correlate_fives.inl.h"
#include "../kernels/convolution/strided_points.inl.h"
#include "../kernels/convolution/correlate_strided.inl.h"
#include "../kernels/convolution/correlate_whole.inl.h"
#include "../kernels/convolution/input_by_windows.inl.h"
#include "../kernels/convolution/weight_gradient.inl.h"
#include "../kernels/convolution/weight_by_pixels.inl.h"
#include "../kernels/convolution/weight_by_channels.inl.h"
#include "../kernels/convolution/weight_by_tiles.inl.h"
#include "../kernels/convolution/weight_by_fives.inl.h"
#include "../kernels/convolution/depthwise.inl.h"
#include "../kernels/convolution/convolution.inl.h"

void install_convolution(Table& table);
void install_convolution(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "kernels/convolution.h"
#undef EFL_KERNEL
}
