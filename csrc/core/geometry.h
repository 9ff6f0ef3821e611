// How many positions a sliding window has: the one formula for the output extents of convolutions and pools.
#pragma once
#include "abi.h"

namespace efl {

// Output extent of a window that slides over a padded axis; 0 if it does not fit.
inline efl_int64 windows(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dilation) {
    const efl_int64 last = size + 2 * pad - dilation * (kernel - 1) - 1;
    return last < 0 ? 0 : last / stride + 1;
}

// Output extent of a pool. Rounded up the last window may reach past the padding, but begins before the padding's end.
inline efl_int64 pool_windows(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, bool is_ceiled) {
    if (!is_ceiled) return windows(size, kernel, stride, pad, 1);
    const efl_int64 last = size + 2 * pad - kernel + stride - 1;  // where windows may begin, from 0 on
    const efl_int64 count = last < 0 ? 0 : last / stride + 1;
    return count && (count - 1) * stride >= size + pad ? count - 1 : count;
}

}  // namespace efl
