// Images side by side, a cell of each, and back: [batch, inner] to [batch / lanes, inner, lanes]. As many as a vector
// holds are turned by vectors; any other number goes one by one.

static void turn_together(const float* x, int64_t inner, int64_t first, int64_t last, float* y) {
    int64_t i = first;
    for (; i + W <= last; i += W) {
        vf vectors[W];
        EFL_UNROLL
        for (int m = 0; m < W; ++m) vectors[m] = load(x + m * inner + i);
        turn(vectors);
        EFL_UNROLL
        for (int k = 0; k < W; ++k) store(y + (i + k) * W, vectors[k]);
    }
    for (; i < last; ++i)
        for (int m = 0; m < W; ++m) y[i * W + m] = x[m * inner + i];
}

static void turn_apart(const float* y, int64_t inner, int64_t first, int64_t last, float* x) {
    int64_t i = first;
    for (; i + W <= last; i += W) {
        vf vectors[W];
        EFL_UNROLL
        for (int k = 0; k < W; ++k) vectors[k] = load(y + (i + k) * W);
        turn(vectors);
        EFL_UNROLL
        for (int m = 0; m < W; ++m) store(x + m * inner + i, vectors[m]);
    }
    for (; i < last; ++i)
        for (int m = 0; m < W; ++m) x[m * inner + i] = y[i * W + m];
}

// body(at, first, last) for cells [first, last) of the images from float `at` on, shared among the threads.
template <class Body>
static void each_lanes(int64_t batch, int64_t inner, int64_t lanes, const Body& body) {
    for (int64_t at = 0; at < batch * inner; at += lanes * inner)
        split(inner, lanes, [=](int64_t first, int64_t last) { body(at, first, last); });
}

static efl_status to_lanes_f32(const float* x, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* y) {
    each_lanes(batch, inner, lanes, [&](int64_t at, int64_t first, int64_t last) {
        if (lanes == W) return turn_together(x + at, inner, first, last, y + at);
        for (int64_t i = first; i < last; ++i)
            for (int64_t m = 0; m < lanes; ++m) y[at + i * lanes + m] = x[at + m * inner + i];
    });
    return EFL_OK;
}

static efl_status from_lanes_f32(const float* y, efl_int64 batch, efl_int64 inner, efl_int64 lanes, float* x) {
    each_lanes(batch, inner, lanes, [&](int64_t at, int64_t first, int64_t last) {
        if (lanes == W) return turn_apart(y + at, inner, first, last, x + at);
        for (int64_t i = first; i < last; ++i)
            for (int64_t m = 0; m < lanes; ++m) x[at + m * inner + i] = y[at + i * lanes + m];
    });
    return EFL_OK;
}
