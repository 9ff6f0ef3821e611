// One segment of a masked Linear layer: the rows of a panel with a block of columns, for VECTORS vectors of examples.
// Every weight meets the vectors of its column's activations, which lie in a first cache; its own row stays in
// registers.

// A segment's rows: entries, and from the first slot on values and offsets.
struct Segment {
    const efl_uint32 *entry, *end;
    const uint16_t* off;
    int64_t slot;

    Segment(const SparseLinear& s, int64_t panel, int64_t block) {
        const efl_uint32* start = s.starts + 2 * (panel * s.blocks + block);
        entry = s.entries + start[0];
        end = s.entries + start[2];
        slot = start[1];
        off = s.offsets + slot;
    }
};

template <int VECTORS, class Float>
static inline Float* at(Float* tile, uint16_t off) {
    constexpr int FLOATS = VECTORS * W, STEP = SparseLinear::STEP;
    if constexpr (FLOATS < STEP) return tile + off / (STEP / FLOATS);
    else return tile + int64_t(off) * (FLOATS / STEP);
}

// The tile's vectors at consecutive offsets, found two weights ahead: what waits for an address fills the scheduler,
// and eight vectors at 64 bytes each went from 7.0 to 6.0 cycles. Reads two offsets past the last.
template <int VECTORS>
struct Ahead {
    const float *tile, *now, *next;
    const uint16_t* off;

    Ahead(const float* tile_, const uint16_t* off_)
        : tile(tile_), now(at<VECTORS>(tile, off_[0])), next(at<VECTORS>(tile, off_[1])), off(off_ + 2) {}
    const float* take() {
        const float* const taken = now;
        now = next;
        next = at<VECTORS>(tile, *off++);
        return taken;
    }
};

constexpr int chains_of(int vectors) { return vectors >= 4 ? 1 : 4 / vectors; }  // sums that one row is computed in

// sums[row] += values . tile[columns], or from bias (which may be nullptr) if it is the first block.
template <int VECTORS>
static void sparse_forward(const SparseLinear& s, int64_t panel, int64_t block, const float* tile, const float* values,
                           const float* bias, float* sums) {
    constexpr int CHAINS = chains_of(VECTORS);
    Segment seg(s, panel, block);
    const float* value = values + seg.slot;
    Ahead<VECTORS> x(tile, seg.off);
    for (; seg.entry < seg.end; ++seg.entry) {
        const int64_t row = SparseLinear::row(*seg.entry), count = SparseLinear::count(*seg.entry);
        float* to = sums + (row - s.first_row(panel)) * VECTORS * W;
        vf acc[CHAINS][VECTORS];
        EFL_UNROLL
        for (int k = 0; k < VECTORS; ++k) {
            acc[0][k] = block ? load(to + k * W) : set1(bias ? bias[row] : 0.0f);
            EFL_UNROLL
            for (int c = 1; c < CHAINS; ++c) acc[c][k] = zero();
        }
        const auto step = [&](vf* chain) {
            const float* from = x.take();
            const vf w = set1(*value++);
            EFL_UNROLL
            for (int k = 0; k < VECTORS; ++k) chain[k] = fma(w, load(from + k * W), chain[k]);
        };
        int64_t i = 0;
        if constexpr (CHAINS == 1 && !READS_IN_FMA) {
            for (; i + W <= count; i += W, value += W) {
                const Singles w(value);
                EFL_UNROLL
                for (int n = 0; n < W; ++n) {
                    const float* from = x.take();
                    EFL_UNROLL
                    for (int k = 0; k < VECTORS; ++k) acc[0][k] = w.fma(n, load(from + k * W), acc[0][k]);
                }
            }
        }
        for (; i + CHAINS <= count; i += CHAINS) {
            EFL_UNROLL
            for (int c = 0; c < CHAINS; ++c) step(acc[c]);
        }
        for (; i < count; ++i) step(acc[0]);
        EFL_UNROLL
        for (int k = 0; k < VECTORS; ++k) {
            EFL_UNROLL
            for (int c = 1; c < CHAINS; ++c) acc[0][k] = add(acc[0][k], acc[c][k]);
            store(to + k * W, acc[0][k]);
        }
    }
}

// tile[columns] += values x grad[row]: the forward slots the other way round, so that no transposed structure is kept.
template <int VECTORS>
static void sparse_scatter(const SparseLinear& s, int64_t panel, int64_t block, const float* grad, const float* values,
                           float* tile) {
    Segment seg(s, panel, block);
    const float* value = values + seg.slot;
    const uint16_t* off = seg.off;
    for (; seg.entry < seg.end; ++seg.entry) {
        const int64_t row = SparseLinear::row(*seg.entry), count = SparseLinear::count(*seg.entry);
        const float* from = grad + (row - s.first_row(panel)) * VECTORS * W;
        vf dy[VECTORS];
        EFL_UNROLL
        for (int k = 0; k < VECTORS; ++k) dy[k] = load(from + k * W);
        for (int64_t i = 0; i < count; ++i, ++off, ++value) {
            float* x = at<VECTORS>(tile, *off);
            const vf w = set1(*value);
            EFL_UNROLL
            for (int k = 0; k < VECTORS; ++k) store(x + k * W, fma(w, dy[k], load(x + k * W)));
        }
    }
}

// A vector of sums of neighbours, the sums of a before the sums of b.
static inline vf neighbours(vf a, vf b) { return add(evens(a, b), odds(a, b)); }

// The vectors of(first), ..., of(first + N - 1) added pairwise until each has W / N lanes left; the result is these
// lanes, vector by vector.
template <int N, class Vectors>
static inline vf halved(const Vectors& of, int first) {
    if constexpr (N == 1) return of(first);
    else return neighbours(halved<N / 2>(of, first), halved<N / 2>(of, first + N / 2));
}

// to[i] = (or +=) the sum of the lanes of of(i), for i < n <= W; calls of(i) for all i < W.
template <class Vectors>
static inline void sum_vectors(const Vectors& of, int n, bool add_to, float* to) {
    const vf total = halved<W>(of, 0);
    store_n(to, add_to ? add(total, load_n(to, n)) : total, n);
}

template <int VECTORS>
static inline vf dot_lanes(const vf* dy, const float* x) {
    vf acc = mul(dy[0], load(x));
    EFL_UNROLL
    for (int k = 1; k < VECTORS; ++k) acc = fma(dy[k], load(x + k * W), acc);
    return acc;
}

// gradients of the segment's slots = (or +=, if add_to) tile[column] . grad[row].
template <int VECTORS>
static void sparse_dots(const SparseLinear& s, int64_t panel, int64_t block, const float* tile, const float* grad,
                        bool add_to, float* gradients) {
    Segment seg(s, panel, block);
    const uint16_t* off = seg.off;
    float* to = gradients + seg.slot;
    alignas(64) float lanes[W * W];  // products of rows' ends, until there are W of them
    const auto kept = [&](int i) { return load(lanes + i * W); };
    float* next = lanes;
    for (; seg.entry < seg.end; ++seg.entry) {
        const int64_t row = SparseLinear::row(*seg.entry);
        const uint16_t* const end = off + SparseLinear::count(*seg.entry);
        const float* from = grad + (row - s.first_row(panel)) * VECTORS * W;
        vf dy[VECTORS];
        EFL_UNROLL
        for (int k = 0; k < VECTORS; ++k) dy[k] = load(from + k * W);
        while (off < end) {
            if (next == lanes && off + W <= end) {
                sum_vectors([&](int i) { return dot_lanes<VECTORS>(dy, at<VECTORS>(tile, off[i])); }, W, add_to, to);
                to += W, off += W;
                continue;
            }
            store(next, dot_lanes<VECTORS>(dy, at<VECTORS>(tile, *off++)));
            next += W;
            if (next < lanes + W * W) continue;
            sum_vectors(kept, W, add_to, to);
            to += W, next = lanes;
        }
    }
    if (next > lanes) sum_vectors(kept, int(next - lanes) / W, add_to, to);
}
