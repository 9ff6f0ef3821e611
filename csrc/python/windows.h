// The rules of edgefl/kernels/table.py that are functions, for arguments from Python: a row names them, and
// csrc/generator/named_rules.py makes the calls.
#pragma once
#include "call.h"

namespace efl {

// The output extents of a convolution; its settings are refused unless they are sound.
struct ConvolutionWindow {
    efl_int64 height, width;

    ConvolutionWindow(const Args& given, const efl_conv2d& c);
};

// Whether the windows of a pool over x may be cut at the end, by the shape of y, which is refused unless it fits.
struct PoolWindow {
    bool is_ceiled;

    PoolWindow(const Args& given, const View& x, const View& y, const efl_int64 (&kernel)[2],
               const efl_int64 (&stride)[2], const efl_int64 (&padding)[2]);
};

// A max pool numbers the cells of its window by one byte.
void expect_code_cells(const Args& given, const efl_int64 (&kernel)[2]);

// The planes of a normalisation with ReLU; y has the shape of x, or that of x after a 2 x 2 pool of stride 2.
struct HalvedPlanes {
    efl_int64 height, width;
    efl_int32 halved;

    HalvedPlanes(const Args& given, const View& x, const View& y);
};

}  // namespace efl
