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

static efl_status softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes,
                                   float* dlogits, double* loss, efl_int64* correct) {
    for (int64_t b = 0; b < batch; ++b) {
        const float* row = logits + b * classes;
        float* gradient = dlogits ? dlogits + b * classes : nullptr;
        const int64_t best = first_largest(row, classes), label = labels[b];
        const double margin = double(row[best]) - double(row[label]);
        const double total = softmax_terms(row, classes, row[best], gradient);
        *loss += std::log(total) + margin;
        *correct += best == label;
        if (!gradient) continue;
        const double own = double(gradient[label]) / total - 1.0;
        const float scale = float(1.0 / (total * double(batch)));
        for (int64_t j = 0; j < classes; ++j) gradient[j] *= scale;
        gradient[label] = float(own / double(batch));
    }
    return EFL_OK;
}
