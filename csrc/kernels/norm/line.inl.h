// Windows of 2 x 2 one after the other, across rows and across planes of one channel, where rows by themselves would
// leave many lanes empty: 9 windows a row are 5.1 vectors of a plane in place of 9. A vector of cells comes in pieces,
// each of one row. This pays where lanes are chosen by masks.

#if defined(EFL_LOADS_LANES)
// A vector whose lanes lie in several places: lanes[k] of them from at[k] on, where lane 0 would lie.
struct Pieces {
    static constexpr int most = 4;
    int count = 0;
    int64_t at[most] = {};
    uint16_t lanes[most] = {};  // 0 where there are no pieces

    vf read(const float* from) const {
        vf v = load_bits(from + at[0], lanes[0]);
        for (int k = 1; k < count; ++k) v = load_over(v, from + at[k], lanes[k]);
        return v;
    }
    void write(float* to, vf v) const {
        for (int k = 0; k < count; ++k) store_bits(to + at[k], v, lanes[k]);
    }
};

// Runs of `length` floats one after the other: the next starts `pitch` behind, and after `runs` of them `jump` behind.
struct RunOfRuns {
    int64_t length, pitch, runs, jump;
    int64_t run = 0, done = 0, start = 0;

    // The next `lanes` floats. False if there are too many pieces.
    bool next(int lanes, Pieces* to) {
        for (int lane = 0; lane < lanes;) {
            if (to->count == Pieces::most) return false;
            const int n = int(least(lanes - lane, length - done));
            to->at[to->count] = start + done - lane;
            to->lanes[to->count++] = uint16_t(((1u << n) - 1u) << lane);
            lane += n, done += n;
            if (done == length) turn();
        }
        return true;
    }
    void turn() {
        done = 0, ++run;
        start += run % runs ? pitch : jump - (runs - 1) * pitch;
    }
};

// A plan for `planes` planes, `step` planes apart. planes is 0 where rows are better.
struct WindowLine {
    static constexpr int most = 16;  // vectors of windows
    int64_t planes = 0, vectors = 0, step = 1;
    Pieces tops[2 * most], windows[most];

    WindowLine(int64_t batch, int64_t channels, int64_t height, int64_t width) : step(channels) {
        const int64_t rows = height / 2, columns = width / 2;
        if (!rows || !columns) return;
        const int64_t vectors_of_rows = 2 * columns > W ? rows * ((columns + W - 1) / W) : (rows + 1) / 2;
        int64_t fewest = batch * vectors_of_rows * 4 / 5 + 1, best = 0;
        for (int64_t n = 1; n <= least(batch, most); ++n) {
            const int64_t of_n = (n * rows * columns + W - 1) / W;
            const int64_t all = batch / n * of_n + batch % n * vectors_of_rows;
            if (of_n <= most && all < fewest) fewest = all, best = n;
        }
        if (best && lay_out(best, height, width)) planes = best;
    }

    bool lay_out(int64_t of, int64_t height, int64_t width) {
        const int64_t rows = height / 2, columns = width / 2, all = of * rows * columns;
        RunOfRuns cells{2 * columns, 2 * width, rows, step * height * width};
        RunOfRuns outputs{rows * columns, 0, 1, step * rows * columns};
        for (int64_t at = 0; at < all; at += W, ++vectors) {
            const int n = int(least(W, all - at));
            Pieces* const top = tops + 2 * vectors;
            if (!cells.next(int(least(W, 2 * n)), top) || !cells.next(2 * n > W ? 2 * n - W : 0, top + 1)) return false;
            if (!outputs.next(n, windows + vectors)) return false;
        }
        return true;
    }

    // Of the group of planes that begins at x: z of its windows, by `z`.
    template <class Z>
    void forward(const Z& of_plane, const float* x, int64_t width, float* y) const {
        const Z z = of_plane;  // which no store changes: its numbers stay in registers
        for (int64_t v = 0; v < vectors; ++v) {
            const Pieces &left = tops[2 * v], &right = tops[2 * v + 1];
            windows[v].write(y, z.largest(left.read(x), right.read(x), left.read(x + width), right.read(x + width)));
        }
    }
    template <class Sums>
    void sum_up(const float* x, const float* dy, int64_t width, Sums* sums) const {
        Sums all = *sums;  // in registers
        for (int64_t v = 0; v < vectors; ++v) {
            const Pieces &left = tops[2 * v], &right = tops[2 * v + 1];
            all.add_windows(left.read(x), right.read(x), left.read(x + width), right.read(x + width),
                            in_pair_order(windows[v].read(dy)));
        }
        *sums = all;
    }
    template <class Of>
    void differentiate(const Line& line, const GradientLine& back, const float* x, const float* dy, int64_t width,
                       float* dx) const {
        const auto read = [&](int64_t v) {
            const Pieces &left = tops[2 * v], &right = tops[2 * v + 1];
            return Of(left.read(x), right.read(x), left.read(x + width), right.read(x + width));
        };
        Of next = read(0);
        for (int64_t v = 0; v < vectors; ++v) {
            const Pieces &left = tops[2 * v], &right = tops[2 * v + 1];
            Of cells = next;
            if (v + 1 < vectors) next = read(v + 1);  // before the stores that would have it wait, as dx may be x
            cells.differentiate(line, back, in_pair_order(windows[v].read(dy)));
            left.write(dx, cells.low(0)), right.write(dx, cells.high(0));
            left.write(dx + width, cells.low(1)), right.write(dx + width, cells.high(1));
        }
    }
};
#else
struct WindowLine {
    static constexpr int64_t planes = 0, step = 0;
    WindowLine(int64_t, int64_t, int64_t, int64_t) {}
    template <class Z>
    void forward(const Z&, const float*, int64_t, float*) const {}
    template <class Sums>
    void sum_up(const float*, const float*, int64_t, Sums*) const {}
    template <class Of>
    void differentiate(const Line&, const GradientLine&, const float*, const float*, int64_t, float*) const {}
};
#endif
