// The kernel bodies of one tier, and the function that writes them over the table. Included inside a tier's namespace,
// after the tier's simd words. Everything here is static: nothing of a tier may be shared with another.

#include "../math/exp.inl.h"
#include "../micro/index.inl.h"
#include "../micro/loops.inl.h"
#include "../micro/sums.inl.h"
#include "../micro/pairs.inl.h"
#include "../micro/carve.inl.h"
#include "../micro/copy.inl.h"
#include "../micro/interleave.inl.h"
#include "../micro/product.inl.h"
#include "../micro/dot.inl.h"

#include "../kernels/batch.inl.h"
#include "../kernels/elementwise.inl.h"
#include "../kernels/loss.inl.h"
#include "../kernels/mask.inl.h"
#include "../kernels/narrow.inl.h"
#include "../kernels/parameters.inl.h"
#include "../kernels/update.inl.h"
#include "../kernels/linear.inl.h"
#include "../kernels/norm/statistics.inl.h"
#include "../kernels/norm/plain.inl.h"
#include "../kernels/norm/relu.inl.h"
#include "../kernels/pool/window.inl.h"
#include "../kernels/pool/max.inl.h"
#include "../kernels/pool/average.inl.h"
#include "../kernels/convolution/axis.inl.h"
#include "../kernels/convolution/cells.inl.h"
#include "../kernels/convolution/planes.inl.h"
#include "../kernels/convolution/winograd_points.inl.h"
#include "../kernels/convolution/correlation.inl.h"
#include "../kernels/convolution/correlate_rows.inl.h"
#include "../kernels/convolution/correlate_small.inl.h"
#include "../kernels/convolution/correlate_tiles.inl.h"
#include "../kernels/convolution/correlate_whole.inl.h"
#include "../kernels/convolution/weight_gradient.inl.h"
#include "../kernels/convolution/weight_by_pixels.inl.h"
#include "../kernels/convolution/weight_by_channels.inl.h"
#include "../kernels/convolution/weight_by_tiles.inl.h"
#include "../kernels/convolution/convolution.inl.h"

void install(Table& table);
void install(Table& table) {
#define EFL_KERNEL(name) table.name = name;
#include "../core/kernels.h"
#undef EFL_KERNEL
}
