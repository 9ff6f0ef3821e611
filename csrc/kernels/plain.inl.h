// Convolution and linear layers as plain loops: what the packed products must equal.

// visit(output pixel, input pixel, tap) for every tap inside the plane.
template <class Visit>
static void each_tap(const efl_conv2d& c, const Geometry& g, Visit&& visit) {
    for (int64_t kh = 0; kh < c.kernel_h; ++kh)
        for (int64_t kw = 0; kw < c.kernel_w; ++kw)
            for (int64_t oh = 0; oh < g.out_h; ++oh) {
                const int64_t h = oh * c.stride_h - c.pad_h + kh * c.dil_h;
                if (h < 0 || h >= c.height) continue;
                for (int64_t ow = 0; ow < g.out_w; ++ow) {
                    const int64_t w = ow * c.stride_w - c.pad_w + kw * c.dil_w;
                    if (w >= 0 && w < c.width) visit(oh * g.out_w + ow, h * c.width + w, kh * c.kernel_w + kw);
                }
            }
}

static efl_status conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy, efl_index outs,
                                         efl_index ins, float* dw) {
    const efl_conv2d& c = *conv;
    const Geometry g(c);
    const int64_t in_plane = c.height * c.width, out_plane = g.out_h * g.out_w, taps = c.kernel_h * c.kernel_w;
    const int64_t n_ins = c.groups == 1 ? count_of(ins, x_channels) : g.in_group, n_outs = count_of(outs, c.out_channels);
    int64_t compact = -1;
    for (int64_t j = 0; j < n_outs; ++j) {
        const int64_t o = id_of(outs, j), group = o / g.out_group;
        compact += j == 0 || id_of(outs, j - 1) / g.out_group != group;
        for (int64_t i = 0; i < n_ins; ++i) {
            float* k = dw + (j * n_ins + i) * taps;
            for (int64_t t = 0; t < taps; ++t) k[t] = 0;
            const int64_t plane = c.groups == 1 ? id_of(ins, i) : x_channels == c.in_channels ? group * g.in_group + i : compact;
            for (int64_t b = 0; b < c.batch; ++b) {
                const float* in = x + (b * x_channels + plane) * in_plane;
                const float* out = dy + (b * c.out_channels + o) * out_plane;
                each_tap(c, g, [&](int64_t to, int64_t from, int64_t tap) { k[tap] += out[to] * in[from]; });
            }
        }
    }
    return EFL_OK;
}
