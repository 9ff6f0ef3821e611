// Softmax cross-entropy with its gradient, one row of logits at a time; with weights of classes and smoothed labels,
// too.

// Classes from which on vectors find the largest logit sooner than a loop over logits.
constexpr int64_t FOUND_BY_VECTORS = W == 16 ? 1 : W == 8 ? 32 : INT64_MAX;

// first_largest by a loop over logits.
static inline int64_t first_by_logits(const float* row, int64_t n) {
    vf top = set1(-INFINITY);
    int64_t j = 0;
    for (; j + W <= n; j += W) top = max(top, load(row + j));
    float lane[W], largest = -INFINITY;
    store(lane, top);
    for (int i = 0; i < W; ++i) largest = lane[i] > largest ? lane[i] : largest;
    for (; j < n; ++j) largest = row[j] > largest ? row[j] : largest;
    int64_t first = n;
    for (int64_t i = 0; i < n; ++i) {
        if (row[i] != row[i]) return i;
        if (first == n && row[i] == largest) first = i;
    }
    return first;
}

// The logits from j on, and what is below each other number in lanes behind the last one.
static inline vf logits_from(const float* row, int64_t j, int64_t n) {
    if (j + W <= n) return load(row + j);
    const int rest = int(n - j);
    return add(load_n(row + j, rest), keep_bits(set1(-INFINITY), ~((1u << rest) - 1u)));
}

// Where the first largest logit is; among NaNs, the first NaN. One logit alone is not below the largest one, unless
// several are as large, or NaN.
static inline int64_t first_largest(const float* row, int64_t n) {
    if (n < FOUND_BY_VECTORS) return first_by_logits(row, n);
    vf top = set1(-INFINITY);
    for (int64_t j = 0; j < n; j += W) top = max(top, logits_from(row, j, n));
    const vf largest = set1(largest_lane(top));
    int64_t first = n;
    for (int64_t j = 0; j < n; j += W) {
        const unsigned here = n - j < W ? (1u << (n - j)) - 1u : unsigned((uint64_t(1) << W) - 1);
        const unsigned reached = ~larger_bits(largest, logits_from(row, j, n)) & here;
        if (!reached) continue;
        if (first < n || (reached & (reached - 1))) return first_by_logits(row, n);
        first = j + __builtin_ctz(reached);
    }
    return first;
}

// Sum of e^(row[j] - largest); the terms go to `terms` unless it is NULL. terms may be row.
static inline double softmax_terms(const float* row, int64_t n, float largest, float* terms) {
    const vf top = set1(largest);
    vf total = zero();
    int64_t j = 0;
    for (; j + W <= n; j += W) {
        const vf e = exp_nonpositive(sub(load(row + j), top));
        if (terms) store(terms + j, e);
        total = add(total, e);
    }
    if (j < n) {
        const int rest = int(n - j);
        const vf e = keep_bits(exp_nonpositive(sub(load_n(row + j, rest), top)), (1u << rest) - 1u);
        if (terms) store_n(terms + j, e, rest);
        total = add(total, e);
    }
    return double(sum(total));
}

// What a row adds to the loss and, whether its first largest logit is its label's, to the hits; its gradient if asked.
static inline double softmax_row(const float* row, int64_t label, int64_t batch, int64_t classes, float* gradient,
                                 bool* hit) {
    const int64_t best = first_largest(row, classes);
    const double margin = double(row[best]) - double(row[label]);
    const double total = softmax_terms(row, classes, row[best], gradient);
    *hit = best == label;
    if (!gradient) return std::log(total) + margin;
    const double own = double(gradient[label]) / total - 1.0;
    const float scale = float(1.0 / (total * double(batch)));
    for (int64_t j = 0; j < classes; ++j) gradient[j] *= scale;
    gradient[label] = float(own / double(batch));
    return std::log(total) + margin;
}

// What a row adds to the sums.
struct RowLoss {
    double loss;
    int64_t correct;
};

constexpr int64_t ROW_COST = 512;  // of a logarithm, a division and the like, in elements of a row
constexpr int64_t ROWS_AT_ONCE = 1024;

// Rows on the threads, of(i) for row i; what they add is added afterwards, in order.
template <class Of>
static inline void sum_rows(int64_t batch, int64_t width, double* loss, efl_int64* correct, const Of& of) {
    RowLoss found[ROWS_AT_ONCE];
    for (int64_t from = 0; from < batch; from += ROWS_AT_ONCE) {
        const int64_t rows = least(ROWS_AT_ONCE, batch - from);
        RowLoss* const to = found;
        split(rows, width + ROW_COST, [=](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) to[i] = of(from + i);
        });
        for (int64_t i = 0; i < rows; ++i) {
            *loss += found[i].loss;
            *correct += found[i].correct;
        }
    }
}

static efl_status softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes,
                                   float* dlogits, double* loss, efl_int64* correct) {
    sum_rows(batch, classes, loss, correct, [&](int64_t i) {
        bool hit;
        float* gradient = dlogits ? dlogits + i * classes : nullptr;
        const double own = softmax_row(logits + i * classes, labels[i], batch, classes, gradient, &hit);
        return RowLoss{own, hit};
    });
    return EFL_OK;
}

// Weights of classes and smoothed labels: what is asked of a class, by its own and by the row's label.
struct Asked {
    const float* weight;  // NULL: 1
    double smoothing;
    int64_t classes;

    inline double of(int64_t c) const { return weight ? double(weight[c]) : 1.0; }
    inline double label(int64_t c) const { return (1.0 - smoothing) * of(c); }
    inline double share(int64_t c) const { return smoothing / double(classes) * of(c); }
};

// As softmax_row. scale: 1 over the weights of the batch's labels; shared: what all classes share, in all.
static inline RowLoss asked_row(const Asked& asked, const float* row, int64_t label, double scale, double shared,
                                float* gradient) {
    const int64_t classes = asked.classes, best = first_largest(row, classes);
    const double top = double(row[best]), own = asked.label(label), all = own + shared;
    double margin = own * (top - double(row[label]));
    if (asked.smoothing > 0)
        for (int64_t c = 0; c < classes; ++c) margin += asked.share(c) * (top - double(row[c]));
    const double total = softmax_terms(row, classes, row[best], gradient);
    const RowLoss found = {all * std::log(total) + margin, best == label};
    if (!gradient) return found;
    const double probability = all / total;
    for (int64_t c = 0; c < classes; ++c) {
        const double wanted = asked.share(c) + (c == label ? own : 0.0);
        gradient[c] = float(scale * (probability * double(gradient[c]) - wanted));
    }
    return found;
}

static efl_status cross_entropy_f32(const float* logits, const efl_int32* labels, const float* weight, efl_int64 batch,
                                    efl_int64 classes, float smoothing, float* dlogits, double* loss,
                                    efl_int64* correct) {
    const Asked asked{weight, double(smoothing), classes};
    double weights = 0, shared = 0;
    for (int64_t i = 0; i < batch; ++i) weights += asked.of(labels[i]);
    for (int64_t c = 0; c < classes; ++c) shared += asked.share(c);
    sum_rows(batch, classes, loss, correct, [&](int64_t i) {
        float* gradient = dlogits ? dlogits + i * classes : nullptr;
        return asked_row(asked, logits + i * classes, labels[i], 1.0 / weights, shared, gradient);
    });
    return EFL_OK;
}
