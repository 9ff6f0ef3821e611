// The three transforms of Winograd's F(4x4, 3x3), lane by lane, as winograd_points.inl.h has those of F(2x2, 3x3).
//
// A tile's 6x6 source cells and a 3x3 weight become 36 points each, whose sums of products become 4x4 results. Along an
// axis the points are the values of polynomials at 0, a, -a, b, -b and infinity, with a = sqrt(1/2) and b = sqrt(2).
// Their sums round a third as much as those at 0, 1, -1, 2, -2 and infinity.
//
//     B^T = 1   0  -5/2   0   1  0     G =   1     0    0       A^T = 1   1     1    1     1   0
//           0 -2a   -2    a   1  0         -2/3 -2a/3 -1/3            0   a    -a    b    -b   0
//           0  2a   -2   -a   1  0         -2/3  2a/3 -1/3            0  1/2   1/2   2     2   0
//           0 -b/2 -1/2   b   1  0          1/6  b/6   1/3            0  a/2  -a/2  2b   -2b   1
//           0  b/2 -1/2  -b   1  0          1/6 -b/6   1/3
//           0   1    0  -5/2  0  1           0    0    1
//
// Source: Lavin and Gray (arXiv:1509.09308), section 4.3, with other points.

constexpr int FOUR_SPAN = 6;  // cells, and points, along an axis
constexpr float NEAR_POINT = 0.70710678118654752440f, FAR_POINT = 1.41421356237309504880f;

// d[i] = row i of B^T times the column d.
static inline void four_inputs(vf* d, int step) {
    const vf c1 = d[step], c2 = d[2 * step], c3 = d[3 * step], c4 = d[4 * step];
    const vf near_even = fma(set1(-2.0f), c2, c4), near_odd = mul(set1(NEAR_POINT), fma(set1(-2.0f), c1, c3));
    const vf far_even = fma(set1(-0.5f), c2, c4), far_odd = mul(set1(FAR_POINT), fma(set1(-0.5f), c1, c3));
    d[0] = add(fma(set1(-2.5f), c2, d[0]), c4);
    d[5 * step] = add(fma(set1(-2.5f), c3, c1), d[5 * step]);
    d[step] = add(near_even, near_odd), d[2 * step] = sub(near_even, near_odd);
    d[3 * step] = add(far_even, far_odd), d[4 * step] = sub(far_even, far_odd);
}

// B^T times the six vectors at `from`, which are from_step apart, written to_step apart.
static inline void put_inputs(const float* from, int64_t from_step, float* to, int64_t to_step) {
    vf d[FOUR_SPAN];
    EFL_UNROLL
    for (int f = 0; f < FOUR_SPAN; ++f) d[f] = load(from + f * from_step);
    four_inputs(d, 1);
    EFL_UNROLL
    for (int f = 0; f < FOUR_SPAN; ++f) store(to + f * to_step, d[f]);
}

// to[i] = row i of G times the column of three.
static inline void four_weights(const vf* g, int step, vf* to, int to_step) {
    const vf first = g[0], middle = g[step], last = g[2 * step];
    const vf near_even = fma(set1(-1.0f / 3.0f), last, mul(set1(-2.0f / 3.0f), first));
    const vf near_odd = mul(set1(-2.0f / 3.0f * NEAR_POINT), middle);
    const vf far_even = fma(set1(1.0f / 3.0f), last, mul(set1(1.0f / 6.0f), first));
    const vf far_odd = mul(set1(FAR_POINT / 6.0f), middle);
    to[0] = first, to[5 * to_step] = last;
    to[to_step] = add(near_even, near_odd), to[2 * to_step] = sub(near_even, near_odd);
    to[3 * to_step] = add(far_even, far_odd), to[4 * to_step] = sub(far_even, far_odd);
}

// y[i] = row i of A^T times the column of six.
static inline void four_results(const vf* u, int step, vf* y, int to_step) {
    const vf near = add(u[step], u[2 * step]), near_odd = mul(set1(NEAR_POINT), sub(u[step], u[2 * step]));
    const vf far = add(u[3 * step], u[4 * step]), far_odd = mul(set1(FAR_POINT), sub(u[3 * step], u[4 * step]));
    y[0] = add(u[0], add(near, far)), y[to_step] = add(near_odd, far_odd);
    y[2 * to_step] = fma(set1(2.0f), far, mul(set1(0.5f), near));
    y[3 * to_step] = add(fma(set1(2.0f), far_odd, mul(set1(0.5f), near_odd)), u[5 * step]);
}

// d[i] = row i of A times the column of four, the transposed of the above.
static inline void four_spread(const vf* y, vf* d) {
    const vf near_even = fma(set1(0.5f), y[2], y[0]), near_odd = mul(set1(NEAR_POINT), fma(set1(0.5f), y[3], y[1]));
    const vf far_even = fma(set1(2.0f), y[2], y[0]), far_odd = mul(set1(FAR_POINT), fma(set1(2.0f), y[3], y[1]));
    d[0] = y[0], d[5] = y[3];
    d[1] = add(near_even, near_odd), d[2] = sub(near_even, near_odd);
    d[3] = add(far_even, far_odd), d[4] = sub(far_even, far_odd);
}

// to[i] = row i of G^T times the column of six.
static inline void four_gather(const vf* u, int step, vf* to, int to_step) {
    const vf near = mul(set1(-1.0f / 3.0f), add(u[step], u[2 * step])), far = add(u[3 * step], u[4 * step]);
    const vf near_odd = sub(u[step], u[2 * step]), far_odd = mul(set1(FAR_POINT / 6.0f), sub(u[3 * step], u[4 * step]));
    to[0] = fma(set1(1.0f / 6.0f), far, fma(set1(2.0f), near, u[0]));
    to[to_step] = fma(set1(-2.0f / 3.0f * NEAR_POINT), near_odd, far_odd);
    to[2 * to_step] = fma(set1(1.0f / 3.0f), far, add(near, u[5 * step]));
}
