// What the pooling kernels share: the window, the output extents and the loop over planes.

// A pooling layer's geometry with its output extents.
struct Pooling {
    const efl_pool2d* p;
    int64_t out_h, out_w;

    explicit Pooling(const efl_pool2d* pool)
        : p(pool), out_h(pool_windows(pool->height, pool->kernel_h, pool->stride_h, pool->pad_h, pool->ceil_mode)),
          out_w(pool_windows(pool->width, pool->kernel_w, pool->stride_w, pool->pad_w, pool->ceil_mode)) {}
    inline int64_t in_plane() const { return p->height * p->width; }
    inline int64_t out_plane() const { return out_h * out_w; }
};

// The window of one output.
struct Window {
    int64_t h0, w0;                          // its origin, which may lie in the padding
    int64_t h_begin, h_end, w_begin, w_end;  // its cells inside the plane

    inline Window(const efl_pool2d& p, int64_t oh, int64_t ow)
        : h0(oh * p.stride_h - p.pad_h), w0(ow * p.stride_w - p.pad_w), h_begin(h0 < 0 ? 0 : h0),
          h_end(least(h0 + p.kernel_h, p.height)), w_begin(w0 < 0 ? 0 : w0), w_end(least(w0 + p.kernel_w, p.width)) {}
};

// The columns and rows of a window that an average divides by, PyTorch's: with count_include_pad the window cut at the
// padded plane, otherwise its cells inside the plane.
static inline int64_t columns_divided(const efl_pool2d& p, const Window& in) {
    return p.count_include_pad ? least(p.kernel_w, p.width + p.pad_w - in.w0) : in.w_end - in.w_begin;
}
static inline int64_t rows_divided(const efl_pool2d& p, const Window& in) {
    return p.count_include_pad ? least(p.kernel_h, p.height + p.pad_h - in.h0) : in.h_end - in.h_begin;
}

// n <= W codes of a plane of which `left` may be read, as a vector; lanes to spare hold any code.
static inline vf load_codes_of(const uint8_t* codes, int64_t left, int n) {
    if (left >= W) return load_u8(codes);
    uint8_t bytes[W] = {0};
    for (int i = 0; i < n; ++i) bytes[i] = codes[i];
    return load_u8(bytes);
}

static inline void store_codes_of(uint8_t* codes, vf code, int n) {
    if (n == W) return store_u8(codes, code);
    uint8_t bytes[W];
    store_u8(bytes, code);
    for (int i = 0; i < n; ++i) codes[i] = bytes[i];
}

// visit(plane) for the planes [b, c] with c needed.
template <class Visit>
static void each_plane(const efl_pool2d& p, int64_t channels, efl_index channels_needed, Visit&& visit) {
    const int64_t needed = count_of(channels_needed, channels);
    split(p.planes / channels * needed, p.height * p.width, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) visit(i / needed * channels + id_of(channels_needed, i % needed));
    });
}
