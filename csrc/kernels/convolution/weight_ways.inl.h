// The weight gradient of a convolution, and which way it takes, by shape and by the zeros of dy (convolution.inl.h).

// As for the correlations, by shape alone; here fewer channels pay, as the plain sums do worse (measured on Zen 3: 25
// to 25 channels even, 25 to 50 at .8 of the time).
static bool prefers_tiles(const WeightGradient& w) {
    const efl_conv2d& c = w.conv;
    const bool plain =
        c.kernel_h == 3 && c.kernel_w == 3 && c.stride_h == 1 && c.stride_w == 1 && c.dil_h == 1 && c.dil_w == 1;
    return plain && c.groups == 1 &&
           pays_for_points(w.ins_per_group(), count_of(w.outs, c.out_channels), 13, c.batch, w.geometry.out_h,
                           w.geometry.out_w);
}

// Vectors of a map with which the pixel kernel spends its time on loading and storing sums.
constexpr int64_t FEW_VECTORS = 32;
constexpr int64_t PIXEL_WEIGHTS = 32768 / W;  // up to here its vector-wide sums fit in L2, beside a map of few vectors

// Lanes over channels, or over pixels: decided by shape. Measured on Zen 3 with equal numbers of channels: 14x14, 8x8
// and 16x16, 25x25 weights and up are faster over channels; 32x32 is faster over pixels up to 50x50 and about even at
// 64x64.
static bool prefers_channels(const WeightGradient& w, int64_t weights) {
    if (w.conv.groups != 1) return false;
    if (w.positions() > FEW_VECTORS * W) return weights > 8 * PIXEL_WEIGHTS;
    return weights > PIXEL_WEIGHTS || w.ins_per_group() >= W;
}

// One of the seven ways.
efl_status conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy,
                                  efl_index outs, efl_index ins, float* dw) {
    const Geometry g(*conv);
    const WeightGradient w{
        .conv = *conv,
        .geometry = g,
        .planes = forward_planes(*conv, g),
        .x = x,
        .x_channels = x_channels,
        .dy = dy,
        .outs = outs,
        .ins = ins,
        .dw = dw,
    };
    const int64_t weights = count_of(outs, conv->out_channels) * w.ins_per_group() * w.taps();
    if (weights == 0) return EFL_OK;
    if (conv->batch == 0) {
        zero_floats(dw, weights);
        return EFL_OK;
    }
    if (prefers_depthwise(*conv, MOST_CELLS)) return weight_of_depthwise(w);
    if (fills_runs(*conv, w.ins_per_group(), 1) && weight_by_nonzeros(w)) return EFL_OK;
    if constexpr (W > 4)
        if (prefers_tiles(w) && prefers_fours(w)) return weight_by_tiles<4>(w);
    if (prefers_tiles(w)) return weight_by_tiles<2>(w);
    if (prefers_fives(w)) return weight_by_fives(w);
    return prefers_channels(w, weights) ? weight_by_channels(w) : weight_by_pixels(w);
}
