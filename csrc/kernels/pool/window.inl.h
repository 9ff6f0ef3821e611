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

// visit(plane) for the planes [b, c] with c needed.
template <class Visit>
static void each_plane(const efl_pool2d& p, int64_t channels, efl_index channels_needed, Visit&& visit) {
    const int64_t needed = count_of(channels_needed, channels);
    split(p.planes / channels * needed, p.height * p.width, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) visit(i / needed * channels + id_of(channels_needed, i % needed));
    });
}
