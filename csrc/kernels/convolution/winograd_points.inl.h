// The three transforms of Winograd's F(2x2, 3x3), lane by lane: each lane is a tile, or a weight, of its own.
//
// A tile's 4x4 source cells d and a 3x3 weight g become 16 points each; the 16 sums of their products over the source
// channels become the tile's 2x2 results:
//
//     Y = A^T ((G g G^T) * (B^T d B)) A     B^T = 1  0 -1  0     G =  1    0    0     A^T = 1  1  1  0
//                                                 0  1  1  0         1/2  1/2  1/2          0  1 -1 -1
//                                                 0 -1  1  0         1/2 -1/2  1/2
//                                                 0  1  0 -1          0    0    1
//
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (arXiv:1509.09308), section 4.1.

constexpr int64_t POINTS = 16;
constexpr int64_t GROUP_PANELS = 4;  // panels of targets or outputs transformed at a time

// Tile rows of one image that lie in one chunk.
struct Strip {
    int64_t image, first, rows;
};

// The tiles of all images, of edge x edge results each, in chunks of about `fitting`: an image's tile rows in strips,
// the strips of all images in chunks.
struct Tiling {
    int64_t rows, cols;  // tiles of an image, or of as many images as are side by side
    Parts strips, chunks;

    Tiling(int64_t batch, int64_t out_h, int64_t out_w, int64_t side_by_side, int64_t fitting, int64_t edge = 2)
        : rows((out_h + edge - 1) / edge), cols((out_w + edge - 1) / edge * side_by_side),
          strips(rows, fitting > cols ? least(rows, fitting / cols) : 1),
          chunks(batch * strips.count, fitting > strips.size(0) * cols ? fitting / (strips.size(0) * cols) : 1) {}

    Strip strip(int64_t i) const {
        return Strip{i / strips.count, strips.first(i % strips.count), strips.size(i % strips.count)};
    }
    int64_t most() const { return chunks.size(0) * strips.size(0) * cols; }  // tiles of a chunk

    int64_t tiles(int64_t chunk) const {
        int64_t count = 0;
        each_strip(chunk, [&](const Strip& strip) { count += strip.rows * cols; });
        return count;
    }

    template <class Visit>
    void each_strip(int64_t chunk, Visit&& visit) const {
        for (int64_t i = chunks.first(chunk); i < chunks.first(chunk) + chunks.size(chunk); ++i) visit(strip(i));
    }
};

// Clears the last vector of a channel's tiles, of which `points` lie `step` floats apart, where some of its lanes are
// no tile: what lies there may be subnormal, which costs a product a hundred times its time.
static inline void clear_spare_tiles(float* to, int64_t tiles, int64_t points, int64_t step) {
    if (tiles % W == 0) return;
    for (int64_t f = 0; f < points; ++f) store(to + f * step + tiles / W * W, zero());
}

// d[i] = row i of B^T times the column d.
static inline void input_points(vf* d, int step) {
    const vf a = sub(d[0], d[2 * step]), b = add(d[step], d[2 * step]);
    const vf e = sub(d[2 * step], d[step]), f = sub(d[step], d[3 * step]);
    d[0] = a, d[step] = b, d[2 * step] = e, d[3 * step] = f;
}

// g[i] = row i of G times the column of three.
static inline void weight_points(const vf* g, int step, vf* to, int to_step) {
    const vf half = set1(0.5f), ends = mul(half, add(g[0], g[2 * step])), middle = mul(half, g[step]);
    to[0] = g[0], to[to_step] = add(ends, middle), to[2 * to_step] = sub(ends, middle), to[3 * to_step] = g[2 * step];
}

// The four results of a vector of tiles: even and odd columns of two rows.
static inline void result_points(const float* from, int64_t step, vf bias, vf* y) {
    vf upper[4], lower[4];
    EFL_UNROLL
    for (int q = 0; q < 4; ++q) {
        const vf a = load(from + q * step), b = load(from + (4 + q) * step), d = load(from + (8 + q) * step);
        upper[q] = add(add(a, b), d);
        lower[q] = sub(sub(b, d), load(from + (12 + q) * step));
    }
    y[0] = add(add(add(upper[0], upper[1]), upper[2]), bias);
    y[1] = add(sub(sub(upper[1], upper[2]), upper[3]), bias);
    y[2] = add(add(add(lower[0], lower[1]), lower[2]), bias);
    y[3] = add(sub(sub(lower[1], lower[2]), lower[3]), bias);
}

// `count` floats, at most 2 W: even and odd interleaved.
static inline void store_zipped(float* to, vf even, vf odd, int64_t count) {
    store_n(to, zip_low(even, odd), int(least(W, count)));
    if (count > W) store_n(to + W, zip_high(even, odd), int(least(W, count - W)));
}

// d = A y A^T of the four results of a tile, the transposed of the above: 16 points.
static inline void spread_points(const vf* y, vf* d) {
    vf half[8];
    EFL_UNROLL
    for (int q = 0; q < 2; ++q)
        half[q] = y[q], half[2 + q] = add(y[q], y[2 + q]), half[4 + q] = sub(y[q], y[2 + q]),
        half[6 + q] = sub(zero(), y[2 + q]);
    EFL_UNROLL
    for (int r = 0; r < 4; ++r) {
        const vf a = half[2 * r], b = half[2 * r + 1];
        d[4 * r] = a, d[4 * r + 1] = add(a, b), d[4 * r + 2] = sub(a, b), d[4 * r + 3] = sub(zero(), b);
    }
}

// to = G^T times the column of four.
static inline void gather_points(const vf* u, int step, vf* to, int to_step) {
    const vf half = set1(0.5f), even = mul(half, add(u[step], u[2 * step]));
    to[0] = add(u[0], even), to[to_step] = mul(half, sub(u[step], u[2 * step])),
    to[2 * to_step] = add(even, u[3 * step]);
}
