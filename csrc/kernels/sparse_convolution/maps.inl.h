// Masked 3x3 convolutions of maps of 2x2 and 4x4: a channel's whole map in registers, a list for each tap, which is met
// where it falls inside the map alone.

// body(position, cell) for the positions that tap TAP meets inside a map.
template <int SIDE, int TAP, class Body>
static inline void each_inside(const Body& body) {
    constexpr int down = TAP / 3 - 1, along = TAP % 3 - 1;
    EFL_UNROLL
    for (int r = 0; r < SIDE; ++r) {
        EFL_UNROLL
        for (int c = 0; c < SIDE; ++c)
            if (0 <= r + down && r + down < SIDE && 0 <= c + along && c + along < SIDE)
                body(r * SIDE + c, (r + down) * SIDE + c + along);
    }
}

template <int SIDE, int TAP>
static inline void add_tap(vf (&acc)[SIDE * SIDE], SparseLists& p, const unsigned short* counts) {
    const unsigned short* const end = p.runs + counts[TAP];
    if constexpr (!READS_IN_FMA) {
        for (; p.runs + W <= end; p.runs += W, p.values += W) {
            const Singles w(p.values);
            EFL_UNROLL
            for (int i = 0; i < W; ++i) {
                const float* const x = p.cells + p.runs[i] * W;
                each_inside<SIDE, TAP>([&](int at, int cell) { acc[at] = w.fma(i, load(x + cell * W), acc[at]); });
            }
        }
    }
    for (; p.runs < end; ++p.runs, ++p.values) {
        const float* const x = p.cells + *p.runs * W;
        const vf w = set1(*p.values);
        each_inside<SIDE, TAP>([&](int at, int cell) { acc[at] = fma(w, load(x + cell * W), acc[at]); });
    }
}

template <int SIDE>
static void add_maps(const SparseLists& lists) {
    constexpr int CELLS = SIDE * SIDE;
    SparseLists p = lists;
    for (int64_t i = 0; i < p.lists; ++i, p.list += p.list_size) {
        float* const results = p.results + p.list[0] * p.step;
        vf acc[CELLS];
        EFL_UNROLL
        for (int k = 0; k < CELLS; ++k) acc[k] = load(results + k * W);
        const unsigned short* const counts = p.list + 1;
        add_tap<SIDE, 0>(acc, p, counts), add_tap<SIDE, 1>(acc, p, counts), add_tap<SIDE, 2>(acc, p, counts);
        add_tap<SIDE, 3>(acc, p, counts), add_tap<SIDE, 4>(acc, p, counts), add_tap<SIDE, 5>(acc, p, counts);
        add_tap<SIDE, 6>(acc, p, counts), add_tap<SIDE, 7>(acc, p, counts), add_tap<SIDE, 8>(acc, p, counts);
        EFL_UNROLL
        for (int k = 0; k < CELLS; ++k) store(results + k * W, acc[k]);
    }
}
