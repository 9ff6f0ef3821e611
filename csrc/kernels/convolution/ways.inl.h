// What the two parts of the convolutions know of one another (csrc/isa/convolution.h, csrc/isa/weight_gradient.h):
// which shapes are depthwise, what pays for transforms, and functions that the other part has.

// Cells of a plane, beyond which its vectors leave L1 (32x32: .9 to 1.4 of the time of vectors along rows, 16x16 .7 to
// .9, 8x8 .2 to .5, with AVX-512), or L2 where the other way takes its phases one after the other (32x32 at a stride of
// 2: .25).
constexpr int64_t MOST_CELLS = READS_IN_FMA ? 512 : 1024, MOST_STRIDED_CELLS = 4096;
constexpr int64_t MOST_STRIDE = 4;

// A channel for each channel, half a vector of them or more, and planes that are small.
static inline bool prefers_depthwise(const efl_conv2d& c, int64_t cells) {
    return 2 * c.groups >= W && c.groups == c.in_channels && c.groups == c.out_channels &&
           c.height * c.width <= cells && c.stride_h <= MOST_STRIDE && c.stride_w <= MOST_STRIDE;
}

// The transforms cost some `balance` products per channel and tile; vectors want tiles, and one row has no pairs of
// them.
static inline bool pays_for_points(int64_t ins, int64_t outs, int64_t balance, int64_t batch, int64_t out_h,
                                   int64_t out_w) {
    return ins * outs >= balance * (ins + outs) && out_h > 1 && out_w > 1 &&
           batch * ((out_h + 1) / 2) * ((out_w + 1) / 2) >= 16;
}

constexpr int64_t FOUR_BALANCE = 24;

// The same of tiles of 4x4 positions in place of 2x2: where a map has a third of the tiles or fewer. Vectors of four
// floats do not take them, as nobody measured that.
static inline bool pays_for_fours(int64_t ins, int64_t outs, int64_t out_h, int64_t out_w) {
    return ins * outs >= FOUR_BALANCE * (ins + outs) &&
           3 * ((out_h + 3) / 4) * ((out_w + 3) / 4) <= ((out_h + 1) / 2) * ((out_w + 1) / 2);
}

efl_status depthwise_forward(const efl_conv2d& c, const Geometry& g, const float* x, const float* weight,
                             const float* bias, float* y);
efl_status depthwise_grad_input(const efl_conv2d& c, const Geometry& g, const float* dy, const float* weight,
                                efl_index outs, efl_index ins, float* dx);
efl_status conv2d_grad_weight_f32(const efl_conv2d* conv, const float* x, efl_int64 x_channels, const float* dy,
                                  efl_index outs, efl_index ins, float* dw);
