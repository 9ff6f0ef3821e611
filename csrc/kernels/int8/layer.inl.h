// A convolution of int8 codes without groups: where its codes lie in packed memory.
//
// Inputs: [image][block of CODES channels][padded row][padded column][CODES]. Weights: [vector of OUTS outputs][tap]
// [block][output][CODES]. A position is where a window begins in an image, and `off` says how far behind it the codes
// of a tap and a block lie.

static inline int64_t up_to(int64_t count, int64_t step) { return (count + step - 1) / step; }

struct Int8Layer {
    const efl_conv2d& c;
    int64_t out_h, out_w, blocks, groups, rows, cols, vectors;

    explicit Int8Layer(const efl_conv2d& c_)
        : c(c_), out_h(windows(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h)),
          out_w(windows(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w)), blocks(up_to(c.in_channels, CODES)),
          groups(c.kernel_h * c.kernel_w * blocks), rows(c.height + 2 * c.pad_h), cols(c.width + 2 * c.pad_w),
          vectors(up_to(c.out_channels, OUTS)) {}

    int64_t positions() const { return out_h * out_w; }
    int64_t taps() const { return c.kernel_h * c.kernel_w; }
    int64_t cells() const { return c.height * c.width; }
    int64_t image_codes() const { return blocks * rows * cols * CODES; }
    int64_t vector_codes() const { return groups * OUTS * CODES; }
    int64_t macs() const { return c.batch * positions() * c.out_channels * taps() * c.in_channels; }

    void fill_offsets(int64_t* off) const {
        for (int64_t i = 0; i < c.kernel_h; ++i)
            for (int64_t j = 0; j < c.kernel_w; ++j)
                for (int64_t k = 0; k < blocks; ++k) *off++ = ((k * rows + i * c.dil_h) * cols + j * c.dil_w) * CODES;
    }
};
