// The weight gradient of a convolution, as its four ways take it.

struct WeightGradient {
    const efl_conv2d& conv;
    Geometry geometry;
    Planes planes;
    const float* x;
    int64_t x_channels;
    const float* dy;
    efl_index outs, ins;
    float* dw;

    int64_t taps() const { return conv.kernel_h * conv.kernel_w; }
    int64_t ins_per_group() const { return conv.groups == 1 ? count_of(ins, x_channels) : geometry.in_group; }
    int64_t positions() const { return geometry.out_h * geometry.out_w; }
    const float* x_plane(int64_t image, int64_t i) const {
        const int64_t plane = conv.groups == 1 ? id_of(ins, i) : i;
        return x + (image * x_channels + plane) * conv.height * conv.width;
    }
    const float* dy_plane(int64_t image, int64_t j) const {
        return dy + (image * conv.out_channels + id_of(outs, j)) * positions();
    }
};
