// Softmax cross-entropy with its gradient in one pass over the logits.

static inline int64_t first_largest(const float* row, int64_t n) {
    int64_t best = 0;
    for (int64_t j = 1; j < n; ++j)
        if (row[j] > row[best] || (row[j] != row[j] && row[best] == row[best])) best = j;
    return best;
}

static efl_status softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes, float* dlogits,
                                   double* loss, efl_int64* correct) {
    for (int64_t b = 0; b < batch; ++b) {
        const float* row = logits + b * classes;
        const int64_t best = first_largest(row, classes), label = labels[b];
        const float largest = row[best], own = row[label];
        double total = 0;
        for (int64_t j = 0; j < classes; ++j) total += std::exp(double(row[j]) - double(largest));
        *loss += std::log(total) - (double(own) - double(largest));
        *correct += best == label;
        if (!dlogits) continue;
        for (int64_t j = 0; j < classes; ++j)
            dlogits[b * classes + j] =
                float((std::exp(double(row[j]) - double(largest)) / total - double(j == label)) / double(batch));
    }
    return EFL_OK;
}
