// Where a Linear layer's gradient goes that is not stored: a step of SGD takes it, a few rows and columns at a time.

// w[rows[m], cols[n]] for the gradient's row m and column n.
struct Step {
    SgdStep sgd;
    int64_t w_pitch;
    efl_index rows, cols;

    static constexpr int64_t RUN = 4 * W;  // columns looked at together
    static constexpr int64_t MAX_SPAN = 8 * W;

    // A part of the gradient: its first row and column, extents, and values [count][pitch].
    struct Part {
        int64_t row, count, column, width;
        const float* grads;
        int64_t pitch;
    };

    void apply(const Part& whole) const {
        if (!cols.ids) return sgd.plain() ? apply_neighbours<true>(whole) : apply_neighbours<false>(whole);
        for (int64_t n = 0; n < whole.width; n += RUN) {
            Part part = whole;
            part.column += n, part.width = least(RUN, whole.width - n), part.grads += n;
            apply_run(part);
        }
    }

    // Neighbours in w move together.
    void apply_run(const Part& part) const {
        const int64_t span = id_of(cols, part.column + part.width - 1) + 1 - id_of(cols, part.column);
        if (span > part.width && span <= MAX_SPAN)
            return sgd.plain() ? apply_spread<true>(part, span) : apply_spread<false>(part, span);
        return sgd.plain() ? apply_neighbours<true>(part) : apply_neighbours<false>(part);
    }

    template <bool PLAIN>
    void apply_neighbours(const Part& part) const {
        SgdStep tile = sgd;
        tile.grad = part.grads;
        for (int64_t n = 0, end; n < part.width; n = end) {
            const int64_t column = id_of(cols, part.column + n);
            end = cols.ids ? n + 1 : part.width;
            while (end < part.width && id_of(cols, part.column + end) == column + end - n) ++end;
            for (int64_t m = 0; m < part.count; ++m)
                tile.segment<PLAIN>(id_of(rows, part.row + m) * w_pitch + column, m * part.pitch + n, end - n);
        }
    }

    // Columns with few gaps: a row's gradients are spread, and every vector of the span moves where `chosen` has a one.
    template <bool PLAIN>
    void apply_spread(const Part& part, int64_t span) const {
        float chosen[MAX_SPAN + W] = {}, spread[MAX_SPAN + W] = {};
        const int32_t* ids = cols.ids + part.column;
        for (int64_t n = 0; n < part.width; ++n) chosen[ids[n] - ids[0]] = 1;
        SgdStep tile = sgd;
        tile.grad = spread;
        for (int64_t m = 0; m < part.count; ++m) {
            for (int64_t n = 0; n < part.width; ++n) spread[ids[n] - ids[0]] = part.grads[m * part.pitch + n];
            float* row = sgd.w + id_of(rows, part.row + m) * w_pitch + ids[0];
            for (int64_t i = 0; i < span; i += W) {
                const int lanes = int(least(W, span - i));
                const vf p = load_n(row + i, lanes);
                store_n(row + i, if_above(load(chosen + i), zero(), tile.moved<PLAIN>(p, i), p), lanes);
            }
        }
    }
};
