// How many places a sliding window has: the one formula for the output extents of convolutions and pools.
#pragma once
#include "abi.h"

namespace efl {

// Output extent of a window that slides over a padded axis; 0 if it does not fit.
inline efl_int64 windows(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dilation) {
    const efl_int64 last = size + 2 * pad - dilation * (kernel - 1) - 1;
    return last < 0 ? 0 : last / stride + 1;
}

}  // namespace efl
