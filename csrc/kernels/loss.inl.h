// Softmax cross-entropy with its gradient, one row of logits at a time.

// Where the first largest logit is; among NaNs, the first NaN.
static inline int64_t first_largest(const float* row, int64_t n) {
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

constexpr int64_t ROW_COST = 512;  // of a logarithm, a division and the like, in elements of a row
constexpr int64_t ROWS_AT_ONCE = 1024;

// Rows on the threads; what they add is added afterwards, in order.
static efl_status softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes,
                                   float* dlogits, double* loss, efl_int64* correct) {
    double losses[ROWS_AT_ONCE];
    bool hits[ROWS_AT_ONCE];
    for (int64_t from = 0; from < batch; from += ROWS_AT_ONCE) {
        const int64_t rows = least(ROWS_AT_ONCE, batch - from);
        split(rows, classes + ROW_COST, [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) {
                const int64_t at = (from + i) * classes;
                losses[i] = softmax_row(logits + at, labels[from + i], batch, classes, dlogits ? dlogits + at : nullptr,
                                        &hits[i]);
            }
        });
        for (int64_t i = 0; i < rows; ++i) {
            *loss += losses[i];
            *correct += hits[i];
        }
    }
    return EFL_OK;
}
