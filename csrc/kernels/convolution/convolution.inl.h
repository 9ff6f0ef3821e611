// Convolution forward and input gradient, as correlations.

struct Geometry {
    int64_t out_h, out_w, in_group, out_group;
    explicit Geometry(const efl_conv2d& c)
        : out_h((c.height + 2 * c.pad_h - c.dil_h * (c.kernel_h - 1) - 1) / c.stride_h + 1),
          out_w((c.width + 2 * c.pad_w - c.dil_w * (c.kernel_w - 1) - 1) / c.stride_w + 1),
          in_group(c.in_channels / c.groups), out_group(c.out_channels / c.groups) {}
};

// One of the three ways, by shape alone.
static efl_status correlate(const Correlation& c) {
    if (c.batch == 0 || c.positions() == 0 || count_of(c.targets, c.target_channels) == 0) return EFL_OK;
    if (prefers_winograd(c)) return correlate_winograd(c);
    return gathers_positions(c) ? correlate_small(c) : correlate_rows(c);
}

static Planes forward_planes(const efl_conv2d& c, const Geometry& g) {
    return Planes(forward_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
                  forward_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w));
}

static efl_status conv2d_forward_f32(const efl_conv2d* conv, const float* x, const float* weight, const float* bias, float* y) {
    const efl_conv2d& c = *conv;
    const Geometry g(c);
    const efl_index all{nullptr, 0};
    return correlate(Correlation{forward_planes(c, g), c.batch, c.groups, x, c.in_channels, all, weight, false, g.in_group, bias, y,
                                 c.out_channels, all, g.out_h * g.out_w, g.out_w, 1});
}

// Whether some input of an axis meets no tap, because the kernel is smaller than the stride or dilated.
static bool misses_inputs(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil) {
    for (int64_t phase = 0; phase < least(stride, size); ++phase)
        if (transposed_axis(size, out, kernel, stride, pad, dil, phase).taps == 0) return true;
    return false;
}

static void clear_channels(const efl_conv2d& c, efl_index ins, float* dx) {
    const int64_t count = count_of(ins, c.in_channels), plane = c.height * c.width;
    split(c.batch * count, plane, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) zero_floats(dx + (i / count * c.in_channels + id_of(ins, i % count)) * plane, plane);
    });
}

// One correlation of dy for every phase of the stride: the pixels of a phase meet the same taps.
static efl_status conv2d_grad_input_f32(const efl_conv2d* conv, const float* dy, const float* weight, efl_index outs, efl_index ins,
                                        float* dx) {
    const efl_conv2d& c = *conv;
    const Geometry g(c);
    if (misses_inputs(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h) ||
        misses_inputs(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w))
        clear_channels(c, ins, dx);
    for (int64_t h = 0; h < least(c.stride_h, c.height); ++h)
        for (int64_t w = 0; w < least(c.stride_w, c.width); ++w) {
            const Planes planes(transposed_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, h),
                                transposed_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, w));
            const Correlation phase{planes, c.batch, c.groups, dy, c.out_channels, outs, weight, true, g.in_group, nullptr,
                                    dx + h * c.width + w, c.in_channels, ins, c.height * c.width, c.stride_h * c.width, c.stride_w};
            if (phase.taps() == 0) continue;
            if (const efl_status status = correlate(phase)) return status;
        }
    return EFL_OK;
}
