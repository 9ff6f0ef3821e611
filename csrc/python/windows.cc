// The rules declared in windows.h.
#include "windows.h"

namespace efl {

ConvolutionWindow::ConvolutionWindow(const Args& given, const efl_conv2d& c) {
    const std::vector<efl_int64> numbers{c.height, c.width, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w,
                                         c.pad_h,  c.pad_w, c.dil_h,    c.dil_w,    c.groups};
    given.expect_status(geometry(c),
                        "(height, width, kernel 2, stride 2, padding 2, dilation 2, groups) = " + listed(numbers));
    height = windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h);
    width = windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w);
}

// y's shape if windows may be cut at the end, or if they may not.
static Shape pooled(const efl_pool2d& p, const View& x, bool is_ceiled) {
    Shape result = x.shape;
    result[2] = pool_windows(p.height, p.kernel_h, p.stride_h, p.pad_h, is_ceiled);
    result[3] = pool_windows(p.width, p.kernel_w, p.stride_w, p.pad_w, is_ceiled);
    return result;
}

PoolWindow::PoolWindow(const Args& given, const View& x, const View& y, const efl_int64 (&kernel)[2],
                       const efl_int64 (&stride)[2], const efl_int64 (&padding)[2]) {
    efl_pool2d p{x.shape[0] * x.shape[1],
                 x.shape[2],
                 x.shape[3],
                 kernel[0],
                 kernel[1],
                 stride[0],
                 stride[1],
                 padding[0],
                 padding[1],
                 0,
                 0};
    const Shape numbers{p.height, p.width, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w};
    for (const bool each : {true, false}) {
        p.ceil_mode = is_ceiled = each;
        given.expect_status(geometry(p), "(height, width, kernel 2, stride 2, padding 2) = " + text(numbers));
        if (y.shape == pooled(p, x, is_ceiled)) break;
    }
    given.expect_shape(y, pooled(p, x, is_ceiled));
}

void expect_code_cells(const Args& given, const efl_int64 (&kernel)[2]) {
    efl_pool2d p{};
    p.kernel_h = kernel[0], p.kernel_w = kernel[1];
    if (codes_fit(p) != EFL_OK) given.reject("kernel", {"value ", Shape{kernel[0], kernel[1]}}, {"at most 255 cells"});
}

HalvedPlanes::HalvedPlanes(const Args& given, const View& x, const View& y) {
    const bool are_planes = x.shape.size() == 4;
    height = are_planes ? x.shape[2] : 1;
    width = are_planes ? x.shape[3] : x.inner();
    const Shape small{x.shape[0], x.shape[1], height / 2, width / 2};
    halved = are_planes && height > 1 && width > 1 && y.shape == small;
    if (!halved && y.shape != x.shape) given.reject(y.name, {"shape ", y.shape}, {x.shape, " or ", small});
}

}  // namespace efl
