// The weight gradients of dense convolutions, and the depthwise convolutions: the bodies of one instruction set, which
// convolution.h calls. Included inside the namespace of that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "convolution_shared.h"

#include "../kernels/convolution/weight_gradient.inl.h"
#include "../kernels/convolution/pixel_plan.inl.h"
#include "../kernels/convolution/pixel_lanes.inl.h"
#include "../kernels/convolution/weight_by_pixels.inl.h"
#include "../kernels/convolution/weight_by_channels.inl.h"
#include "../kernels/convolution/weight_by_nonzeros.inl.h"
#include "../kernels/convolution/weight_by_tiles.inl.h"
#include "../kernels/convolution/weight_by_fives.inl.h"
#include "../kernels/convolution/depthwise_taps.inl.h"
#include "../kernels/convolution/depthwise.inl.h"
#include "../kernels/convolution/weight_ways.inl.h"
