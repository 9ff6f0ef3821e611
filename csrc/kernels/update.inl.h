// Stochastic gradient descent in place on a block, the squared norm that clipping needs, and sums of a server.
//
// The update multiplies, then adds (never fused), so that every ISA and every segment length gives the same bits.

struct SgdStep {
    float lr, momentum, decay, pull, scale;
    float *w, *velocity;  // velocity, centre, linear: NULL where they take no part
    const float *grad, *centre, *linear;
    bool nesterov = false;

    // The scalar at `at` in w and at `k` in the compact arrays.
    inline void element(int64_t at, int64_t k) const {
        float g = scale * grad[k] + decay * w[at];
        if (centre) g += pull * (w[at] - centre[k]);
        if (linear) g += linear[k];
        if (velocity) {
            const float v = velocity[k] = momentum * velocity[k] + g;
            g = nesterov ? g + momentum * v : v;
        }
        w[at] -= lr * g;
    }

    // Whether no term but the gradient and the decay takes part: compilers do not take the questions out of a loop.
    inline bool plain() const { return !centre && !linear && !velocity; }

    // What the vector p of w becomes; k in the compact arrays.
    template <bool PLAIN>
    inline vf moved(vf p, int64_t k) const {
        vf g = add(mul(set1(scale), load(grad + k)), mul(set1(decay), p));
        if (!PLAIN && centre) g = add(g, mul(set1(pull), sub(p, load(centre + k))));
        if (!PLAIN && linear) g = add(g, load(linear + k));
        if (!PLAIN && velocity) {
            const vf v = add(mul(set1(momentum), load(velocity + k)), g);
            store(velocity + k, v);
            g = nesterov ? add(g, mul(set1(momentum), v)) : v;
        }
        return sub(p, mul(set1(lr), g));
    }

    // The vectors of a segment of n; how many scalars they are.
    template <bool PLAIN>
    __attribute__((always_inline)) inline int64_t vectors(int64_t at, int64_t k, int64_t n) const {
        const SgdStep own = *this;  // which no store changes: its numbers stay in registers
        float* const to = w + at;
        int64_t i = 0;
        for (; i + 4 * W <= n; i += 4 * W) {
            vf p[4];
            EFL_UNROLL
            for (int v = 0; v < 4; ++v) p[v] = own.moved<PLAIN>(load(to + i + v * W), k + i + v * W);
            EFL_UNROLL
            for (int v = 0; v < 4; ++v) store(to + i + v * W, p[v]);
        }
        for (; i + W <= n; i += W) store(to + i, own.moved<PLAIN>(load(to + i), k + i));
        return i;
    }

    template <bool PLAIN>
    __attribute__((always_inline)) inline void segment(int64_t at, int64_t k, int64_t n) const {
        for (int64_t i = vectors<PLAIN>(at, k, n); i < n; ++i) element(at + i, k + i);
    }
};

// Called by the walks over blocks: in their loops its many copies leave no room to inline elsewhere in the instruction
// set.
__attribute__((noinline)) static void move_segment(const SgdStep& step, int64_t at, int64_t k, int64_t n) {
    if (step.plain()) step.segment<true>(at, k, n);
    else step.segment<false>(at, k, n);
}

static void move_block(const Block& block, const SgdStep& step) {
    walk(
        block, [&](int64_t at, int64_t k) { step.element(at, k); },
        [&](int64_t at, int64_t k, int64_t n) { move_segment(step, at, k, n); });
}

static efl_status sgd_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                          const float* grad, const efl_sgd* sgd, const float* scale, float* velocity,
                          const float* centre, const float* linear) {
    const SgdStep step{
        .lr = sgd->lr,
        .momentum = sgd->momentum,
        .decay = sgd->weight_decay,
        .pull = sgd->pull,
        .scale = scale ? *scale : 1.0f,
        .w = w,
        .velocity = sgd->momentum != 0 ? velocity : nullptr,
        .grad = grad,
        .centre = sgd->pull != 0 ? centre : nullptr,
        .linear = linear,
    };
    move_block(Block{n_rows, n_cols, inner, rows, cols}, step);
    return EFL_OK;
}

static efl_status nesterov_f32(float* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                               efl_index cols, const float* grad, const efl_sgd* sgd, float* velocity,
                               const float* scale, const float* centre, const float* linear) {
    const SgdStep step{
        .lr = sgd->lr,
        .momentum = sgd->momentum,
        .decay = sgd->weight_decay,
        .pull = sgd->pull,
        .scale = scale ? *scale : 1.0f,
        .w = w,
        .velocity = velocity,
        .grad = grad,
        .centre = sgd->pull != 0 ? centre : nullptr,
        .linear = linear,
        .nesterov = true,
    };
    move_block(Block{n_rows, n_cols, inner, rows, cols}, step);
    return EFL_OK;
}

// The sum of squares of values. LANES running sums in float64, added in pairs at the end: the order depends on the
// number of values alone, also across ISAs.
template <int LANES>
struct SumOfSquares {
    double lane[LANES] = {};

    // Adds value(i) for first <= i < last. Only the last piece may have another length than a multiple of LANES.
    template <class Value>
    inline void add(int64_t first, int64_t last, Value&& value) {
        int64_t i = first;
        for (; i + LANES <= last; i += LANES)
            for (int k = 0; k < LANES; ++k) lane[k] += value(i + k) * value(i + k);
        for (int k = 0; i < last; ++i, ++k) lane[k] += value(i) * value(i);
    }

    inline double total() {
        for (int half = LANES / 2; half; half /= 2)
            for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
        return lane[0];
    }
};

static efl_status sum_squares_f32(const float* x, efl_int64 count, double* total) {
    SumOfSquares<8> sum;
    sum.add(0, count, [=](int64_t i) { return double(x[i]); });
    *total += sum.total();
    return EFL_OK;
}

// Copies values that are not read soon past the caches, which keep what is worked on.
static void stream_copy(const float* from, float* to, int64_t count) {
    int64_t i = 0;
    for (; i < count && reinterpret_cast<uintptr_t>(to + i) % sizeof(vf); ++i) to[i] = from[i];
    for (; i + W <= count; i += W) stream(to + i, load(from + i));
    for (; i < count; ++i) to[i] = from[i];
}

constexpr int64_t COPIED_AT_ONCE = 1024;  // values: a multiple of the lanes, and a small part of a first cache
constexpr int64_t STREAMED = 1 << 14;     // values from which on a copy does not go into the caches

static efl_status sum_squared_changes_f32(const float* x, const float* before, efl_int64 count, double* total,
                                          float* copy) {
    SumOfSquares<32> sum;
    for (int64_t first = 0; first < count; first += COPIED_AT_ONCE) {
        const int64_t last = std::min<int64_t>(first + COPIED_AT_ONCE, count);
        if (copy && count >= STREAMED) stream_copy(x + first, copy + first, last - first);
        else if (copy) std::copy(x + first, x + last, copy + first);
        sum.add(first, last, [=](int64_t i) { return double(x[i]) - double(before[i]); });
    }
    if (copy) streamed();
    *total += sum.total();
    return EFL_OK;
}

// Four arrays in one pass read and write the sums once in place of four times.
static efl_status add_scaled_f32(double* total, const float* x, efl_int64 count, const double* factors,
                                 const float* second, const float* third, const float* fourth) {
    const double a = factors[0], b = factors[1], c = factors[2], d = factors[3];
    split(count, 2, [=](int64_t first, int64_t last) {
        if (second && third && fourth) {
            for (int64_t i = first; i < last; ++i)
                total[i] =
                    total[i] + a * double(x[i]) + b * double(second[i]) + c * double(third[i]) + d * double(fourth[i]);
            return;
        }
        const float* const given[] = {x, second, third, fourth};
        for (int k = 0; k < 4; ++k)
            if (const float* const each = given[k])
                for (int64_t i = first; i < last; ++i) total[i] += factors[k] * double(each[i]);
    });
    return EFL_OK;
}
