// What both parts of the convolutions are made of. No part needs all of it.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

#include "../kernels/convolution/axis.inl.h"
#include "../kernels/convolution/cells.inl.h"
#include "../kernels/convolution/planes.inl.h"
#include "../kernels/convolution/nonzeros.inl.h"
#include "../kernels/convolution/ways.inl.h"
#include "../kernels/convolution/winograd_points.inl.h"
#include "../kernels/convolution/four_points.inl.h"
#include "../kernels/convolution/five_points.inl.h"

#pragma GCC diagnostic pop
