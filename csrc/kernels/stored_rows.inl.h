// Frozen weights in fewer bits, widened whole, and the rows of an Embedding's table.

static efl_status widen_weight_f32(const efl_uint8* codes, efl_int64 rows, efl_int64 cols, efl_int64 bytes,
                                   const float* row_scale, const float* col_scale, float* x) {
    const StoredWeight weight{codes, cols, bytes, row_scale, col_scale};
    split(rows, cols, [=](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r) weight.widen(r, 0, cols, x + r * cols);
    });
    return EFL_OK;
}

constexpr int64_t STORED_FEATURES = 256;  // of a row that are widened at once

// The places [first, first + count) of an example, at most W.
static void stored_places(const StoredWeight& weight, const float* ids, int64_t length, int64_t count, float* y) {
    float wide[W * STORED_FEATURES];
    for (int64_t f = 0; f < weight.cols; f += STORED_FEATURES) {
        const int64_t features = least(STORED_FEATURES, weight.cols - f);
        for (int64_t k = 0; k < count; ++k) weight.widen(int64_t(ids[k]), f, features, wide + k * STORED_FEATURES);
        for (int64_t i = 0; i < features; ++i)
            for (int64_t k = 0; k < count; ++k) y[(f + i) * length + k] = wide[k * STORED_FEATURES + i];
    }
}

static efl_status embedding_stored_f32(const float* ids, efl_int64 batch, efl_int64 length, const efl_uint8* codes,
                                       efl_int64, efl_int64 features, efl_int64 bytes, const float* row_scale,
                                       const float* col_scale, float* y) {
    const StoredWeight weight{codes, features, bytes, row_scale, col_scale};
    const int64_t blocks = vectors_of(length);
    split(batch * blocks, W * features, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / blocks, t = i % blocks * W;
            stored_places(weight, ids + b * length + t, length, least(W, length - t), y + b * length * features + t);
        }
    });
    return EFL_OK;
}
