// Gradients of a masked convolution's weights: a tile of dy stays in registers over all weights of its channel. Each
// weight's products are a vector of W images' sums, and W such vectors become one vector of gradients.

constexpr int SPARSE_SENT = REGISTERS >= 32 ? 16 : 8;  // vectors of dy in registers, at most
constexpr int SPARSE_SUMS = 64;                        // vectors that wait to be summed, at least W + 3

// Vectors of sums in the order of slots, added to the gradients W at a time.
struct SparseSums {
    float* gradients;  // of the first vector that waits
    float* vectors;    // [SPARSE_SUMS + 3]
    int64_t waiting = 0;

    float* next() { return vectors + waiting * W; }
    void push(int64_t count) {
        waiting += count;
        if (waiting >= SPARSE_SUMS) flush();
    }
    // All whole vectors of gradients; the rest moves to the front.
    __attribute__((noinline)) void flush() {
        int64_t done = 0;
        for (; done + W <= waiting; done += W, gradients += W) {
            vf some[W];
            for (int k = 0; k < W; ++k) some[k] = load(vectors + (done + k) * W);
            store(gradients, add(load(gradients), totals(some)));
        }
        copy_floats(vectors, vectors + done * W, (waiting - done) * W);
        waiting -= done;
    }
    void end() {
        flush();
        vf some[W];
        for (int k = 0; k < W; ++k) some[k] = k < waiting ? load(vectors + k * W) : zero();
        const int rest = int(waiting);
        store_n(gradients, add(load_n(gradients, rest), totals(some)), rest);
    }
};

// Weights of RUNS runs of LENGTH, whose cells begin at runs[0], runs[1], ...
template <int ROWS, int COLS, int LENGTH, int RUNS>
static inline void sum_runs(const vf (&sent)[ROWS][COLS], const SparseLists& p, const unsigned short* runs,
                            SparseSums& sums_of) {
    vf acc[RUNS][LENGTH][ROWS];
    EFL_UNROLL
    for (int n = 0; n < RUNS; ++n) {
        const float* x = p.cells + runs[n] * W;
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r, x = held(x + p.pitch)) {
            EFL_UNROLL
            for (int c = 0; c < COLS + LENGTH - 1; ++c) {
                const vf cell = LENGTH == 1 ? load(x + c * W) : held(load(x + c * W));
                EFL_UNROLL
                for (int k = 0; k < LENGTH; ++k) {
                    if (c == k) acc[n][k][r] = mul(sent[r][0], cell);
                    else if (0 < c - k && c - k < COLS) acc[n][k][r] = fma(sent[r][c - k], cell, acc[n][k][r]);
                }
            }
        }
    }
    float* const to = sums_of.next();
    EFL_UNROLL
    for (int n = 0; n < RUNS; ++n) {
        EFL_UNROLL
        for (int k = 0; k < LENGTH; ++k) {
            vf total = acc[n][k][0];
            EFL_UNROLL
            for (int r = 1; r < ROWS; ++r) total = add(total, acc[n][k][r]);
            store(to + (n * LENGTH + k) * W, total);
        }
    }
    sums_of.push(RUNS * LENGTH);
}

// All runs of a length, RUNS at a time.
template <int ROWS, int COLS, int LENGTH, int RUNS>
static inline void sum_kind(const vf (&sent)[ROWS][COLS], SparseLists& p, int64_t count, SparseSums& sums_of) {
    const unsigned short* const end = p.runs + count;
    for (; p.runs + RUNS <= end; p.runs += RUNS) sum_runs<ROWS, COLS, LENGTH, RUNS>(sent, p, p.runs, sums_of);
    for (; p.runs < end; ++p.runs) sum_runs<ROWS, COLS, LENGTH, 1>(sent, p, p.runs, sums_of);
}

// As add_lists, with dy for the results, whose rows are `sent_pitch` floats apart.
template <int ROWS, int COLS>
static void sum_lists(const SparseLists& lists, int64_t sent_pitch, SparseSums& sums_of) {
    SparseLists p = lists;
    for (int64_t i = 0; i < p.lists; ++i, p.list += p.list_size) {
        const float* const dy = p.results + p.list[0] * p.step;
        vf sent[ROWS][COLS];
        EFL_UNROLL
        for (int r = 0; r < ROWS; ++r) EFL_UNROLL
        for (int c = 0; c < COLS; ++c) sent[r][c] = load(dy + r * sent_pitch + c * W);
        sum_kind<ROWS, COLS, 3, 1>(sent, p, p.list[1], sums_of);
        sum_kind<ROWS, COLS, 2, 2>(sent, p, p.list[2], sums_of);
        sum_kind<ROWS, COLS, 1, 4>(sent, p, p.list[3], sums_of);
    }
}

using SumLists = void (*)(const SparseLists&, int64_t sent_pitch, SparseSums&);

template <int ROWS, int COLS>
static SumLists sums_of_lists(int64_t rows, int64_t cols) {
    if (rows < ROWS) {
        if constexpr (ROWS > 1) return sums_of_lists<ROWS - 1, COLS>(rows, cols);
    } else if (cols < COLS) {
        if constexpr (COLS > 1) return sums_of_lists<ROWS, COLS - 1>(rows, cols);
    }
    if constexpr (ROWS * COLS <= SPARSE_SENT) return sum_lists<ROWS, COLS>;
    return nullptr;
}

template <int SIDE, int TAP>
static inline void sum_tap(const vf (&sent)[SIDE * SIDE], SparseLists& p, const unsigned short* counts,
                           SparseSums& sums_of) {
    const unsigned short* const end = p.runs + counts[TAP];
    while (p.runs < end) {
        const int64_t some = least(end - p.runs, SPARSE_SUMS - sums_of.waiting);
        float* to = sums_of.next();
        for (int64_t i = 0; i < some; ++i, to += W) {
            const float* const x = p.cells + p.runs[i] * W;
            vf acc[4] = {zero(), zero(), zero(), zero()};
            int met = 0;
            each_inside<SIDE, TAP>([&](int at, int cell) {
                vf& sum_of = acc[met % 4];
                sum_of = met++ < 4 ? mul(sent[at], load(x + cell * W)) : fma(sent[at], load(x + cell * W), sum_of);
            });
            store(to, met == 1   ? acc[0]
                      : met == 2 ? add(acc[0], acc[1])
                                 : add(add(acc[0], acc[1]), add(acc[2], acc[3])));
        }
        p.runs += some;
        sums_of.push(some);
    }
}

// As add_maps.
template <int SIDE>
static void sum_maps(const SparseLists& lists, int64_t, SparseSums& sums_of) {
    SparseLists p = lists;
    for (int64_t i = 0; i < p.lists; ++i, p.list += p.list_size) {
        vf sent[SIDE * SIDE];
        EFL_UNROLL
        for (int k = 0; k < SIDE * SIDE; ++k) sent[k] = load(p.results + p.list[0] * p.step + k * W);
        const unsigned short* const counts = p.list + 1;
        sum_tap<SIDE, 0>(sent, p, counts, sums_of), sum_tap<SIDE, 1>(sent, p, counts, sums_of);
        sum_tap<SIDE, 2>(sent, p, counts, sums_of), sum_tap<SIDE, 3>(sent, p, counts, sums_of);
        sum_tap<SIDE, 4>(sent, p, counts, sums_of), sum_tap<SIDE, 5>(sent, p, counts, sums_of);
        sum_tap<SIDE, 6>(sent, p, counts, sums_of), sum_tap<SIDE, 7>(sent, p, counts, sums_of);
        sum_tap<SIDE, 8>(sent, p, counts, sums_of);
    }
}
