// Geometry of a sliding window along each axis.
//
// Position q and tap k meet at source cell q * step + shift(k); cells outside the source are zero. A convolution reads
// its input that way; its input gradient reads dy that way, once for every phase of the stride.

struct Geometry {
    int64_t out_h, out_w, in_group, out_group;
    explicit Geometry(const efl_conv2d& c)
        : out_h(windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h)),
          out_w(windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w)), in_group(c.in_channels / c.groups),
          out_group(c.out_channels / c.groups) {}
};

struct Axis {
    int64_t source, count, step, kernel;
    int64_t base, slope, divisor;  // shift(k) = (base + k * slope) / divisor, where that is whole
    int64_t origin = 0, last = 0, taps = 0;

    bool reaches(int64_t k) const { return (base + k * slope) % divisor == 0; }
    int64_t shift(int64_t k) const { return (base + k * slope) / divisor; }
    int64_t extent() const { return (count - 1) * step + last - origin + 1; }

    // How many taps before k reach the source.
    int64_t reached(int64_t k) const {
        int64_t count = 0;
        while (k-- > 0) count += reaches(k);
        return count;
    }

    void find_taps() {
        for (int64_t k = 0; k < kernel; ++k) {
            if (!reaches(k)) continue;
            origin = taps == 0 || shift(k) < origin ? shift(k) : origin;
            last = taps == 0 || shift(k) > last ? shift(k) : last;
            ++taps;
        }
    }
};

static Axis forward_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil) {
    Axis axis{
        .source = size,
        .count = out,
        .step = stride,
        .kernel = kernel,
        .base = -pad,
        .slope = dil,
        .divisor = 1,
    };
    axis.find_taps();
    return axis;
}

// The inputs phase, phase + stride, ... below size, as positions over the outputs.
static Axis transposed_axis(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil,
                            int64_t phase) {
    Axis axis{
        .source = out,
        .count = (size - phase + stride - 1) / stride,
        .step = 1,
        .kernel = kernel,
        .base = phase + pad,
        .slope = -dil,
        .divisor = stride,
    };
    axis.find_taps();
    return axis;
}

// Whether some input of an axis meets no tap, because the kernel is smaller than the stride or dilated.
static bool misses_inputs(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t dil) {
    for (int64_t phase = 0; phase < least(stride, size); ++phase)
        if (transposed_axis(size, out, kernel, stride, pad, dil, phase).taps == 0) return true;
    return false;
}
