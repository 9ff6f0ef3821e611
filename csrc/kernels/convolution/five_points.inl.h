// The transforms of 5x5 kernels at stride 1: 49 products for 2x2 positions instead of 100.
//
// Along an axis two results meet six cells d and five taps g. The first three taps go by Winograd's F(2, 3), the last
// two by Karatsuba's F(2, 2): seven products instead of ten, with the factors 1 and 1/2 alone.
//
//     n   data      weight             result
//     0   d0 - d2   g0                 0          y0 = r0 + r1 + r2
//     1   d1 + d2   (g0 + g1 + g2)/2   1          y1 = r1 - r2 - r3
//     2   d2 - d1   (g0 - g1 + g2)/2   2
//     3   d1 - d3   g2                 3
//     4   d3 - d4   g3                 0
//     5   d4        g3 + g4            1
//     6   d4 - d5   g4                 3
//
// Both axes together make 49 points, whose products add to the 16 results that winograd_points.inl.h knows. Points
// that add to one result are neighbours: their products are one sum. Source: Lavin and Gray (arXiv:1509.09308), section
// 4.1, for the taps apart.

constexpr int64_t FIVES_WEIGHTS = 1 << 18;  // floats: beyond it the transformed weights outrun L2, and the arena
constexpr int64_t FIVES_BALANCE = 16;       // products per channel and tile that the transforms cost

constexpr int FIVE = 5, SPAN = 6, LINE_POINTS = 7, FIVE_POINTS = 49;
constexpr int LINE_RESULT[LINE_POINTS] = {0, 1, 2, 3, 0, 1, 3};

// Point (a, b) of rows and columns, in the order of results; and where the points of a result start.
struct FiveOrder {
    int position[LINE_POINTS][LINE_POINTS] = {}, first[POINTS + 1] = {};

    constexpr FiveOrder() {
        int next = 0;
        for (int r = 0; r < int(POINTS); ++r) {
            first[r] = next;
            for (int a = 0; a < LINE_POINTS; ++a)
                for (int b = 0; b < LINE_POINTS; ++b)
                    if (4 * LINE_RESULT[a] + LINE_RESULT[b] == r) position[a][b] = next++;
        }
        first[POINTS] = next;
    }
};
constexpr FiveOrder FIVE_ORDER;

// The points of six cells.
static inline void five_data(const vf* d, vf* to) {
    to[0] = sub(d[0], d[2]), to[1] = add(d[1], d[2]), to[2] = sub(d[2], d[1]), to[3] = sub(d[1], d[3]);
    to[4] = sub(d[3], d[4]), to[5] = d[4], to[6] = sub(d[4], d[5]);
}

// The points of five taps, `by` vectors apart.
static inline void five_weights(const vf* g, int by, vf* to) {
    weight_points(g, by, to, 1);
    to[4] = g[3 * by], to[5] = add(g[3 * by], g[4 * by]), to[6] = g[4 * by];
}
