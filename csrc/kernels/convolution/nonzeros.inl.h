// Sums over the values of dy that are not zero, for both gradients of a convolution whose dy is mostly zeros, as it is
// behind a maximum pool and a rectifier.
//
// A run is what a row of taps meets of a panel's channels, side by side, or several such rows together where they are
// short. Its sums stay in registers while the terms pass.

constexpr int64_t MOST_NONZEROS = 3;  // one value in so many, where the ways are taken
constexpr int64_t NONZERO_PANEL = 2 * W;
constexpr int MOST_RUN = 12;  // vectors of a run

// Whether a row of taps of so many channels fills vectors, so many or more, and three fifths of their lanes.
static bool fills_runs(const efl_conv2d& c, int64_t channels, int64_t least_vectors) {
    if (c.groups != 1 || c.dil_w != 1 || c.kernel_w < 2 || c.kernel_w > MOST_RUN / 2 || channels == 0) return false;
    const int64_t lanes = c.kernel_w * least(channels, NONZERO_PANEL), vectors = (lanes + W - 1) / W;
    return vectors >= least_vectors && vectors * c.kernel_h > 3 && 5 * lanes >= 3 * vectors * W;
}

// Rows of taps that make a run, where a row has so many vectors.
static int64_t rows_together(int64_t rows, int64_t vectors) { return vectors > 2 || rows > 5 ? 1 : least(rows, 5); }

// Writes the places of the values that are not zero, and returns their number.
static inline int64_t list_nonzeros(const float* values, int64_t count, int32_t* to) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i += W) {
        const vf v = part(values + i, int(least(W, count - i)));
        const unsigned bits = positive_bits(magnitude(v));
        const int found = __builtin_popcount(bits);
        store_packed(reinterpret_cast<float*>(to + n), counted(int32_t(i)), bits, found);
        n += found;
    }
    return n;
}

// Whether at most one value of dy in MOST_NONZEROS is not zero, in the planes of these outputs in the first eighth of
// the images, which is read for every dy.
static bool is_mostly_zeros(const efl_conv2d& c, const float* dy, efl_index outs, int64_t positions) {
    const int64_t count = count_of(outs, c.out_channels), images = (c.batch + 7) / 8;
    int64_t left = images * count * positions / MOST_NONZEROS;
    for (int64_t n = 0; n < images * count && left >= 0; ++n) {
        const float* plane = dy + (n / count * c.out_channels + id_of(outs, n % count)) * positions;
        for (int64_t i = 0; i < positions; i += W)
            left -= __builtin_popcount(positive_bits(magnitude(part(plane + i, int(least(W, positions - i))))));
    }
    return left >= 0;
}

// Terms of a sum: factor * the vectors at an offset.
struct NonzeroTerms {
    const int32_t* place;
    int64_t count;
    const float* factor;  // [place]
    const int64_t* off;   // [place], in floats, of which each counts OFF_UNIT
};

// sums += the terms of ROWS rows of N vectors, `step` floats apart.
template <int ROWS, int N>
static inline void add_terms(const NonzeroTerms& t, const float* x, int64_t step, vf* sums) {
    for (int64_t k = 0; k < t.count; ++k) {
        const int64_t i = t.place[k];
        const vf factor = set1(t.factor[i]);
        const float* from = x + t.off[i] / OFF_UNIT;
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r) EFL_UNROLL
        for (int j = 0; j < N; ++j) sums[r * N + j] = fma(factor, load(from + r * step + j * W), sums[r * N + j]);
    }
}

// Returns Body<rows, vectors>::run.
template <template <int, int> class Body, int ROWS, int N>
static auto body_of(int64_t rows, int64_t vectors) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return body_of<Body, ROWS - 1, N>(rows, vectors);
    if constexpr (N > 1)
        if (vectors < N) return body_of<Body, ROWS, N - 1>(rows, vectors);
    return &Body<ROWS, N>::run;
}
template <template <int, int> class Body>
static auto body_of(int64_t rows, int64_t vectors) {
    return rows > 1 ? body_of<Body, 5, 2>(rows, vectors) : body_of<Body, 1, MOST_RUN>(rows, vectors);
}
