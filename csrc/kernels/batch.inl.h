// Batches gathered by index: rows of a data set, labels, channels of an activation.

template <class Source>
static void gather_rows(const Source* src, int64_t width, const int32_t* ids, int64_t count, float scale, float shift,
                        float* dst) {
    split(count, width, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) {
            const Source* row = src + ids[b] * width;
            float* out = dst + b * width;
            for (int64_t j = 0; j < width; ++j) out[j] = float(row[j]) * scale + shift;  // two roundings on every ISA
        }
    });
}

static efl_status gather_rows_u8(const efl_uint8* src, efl_int64, efl_int64 width, const efl_int32* ids,
                                 efl_int64 count, float scale, float shift, float* dst) {
    gather_rows(src, width, ids, count, scale, shift, dst);
    return EFL_OK;
}

static efl_status gather_rows_f32(const float* src, efl_int64, efl_int64 width, const efl_int32* ids, efl_int64 count,
                                  float scale, float shift, float* dst) {
    gather_rows(src, width, ids, count, scale, shift, dst);
    return EFL_OK;
}

static efl_status gather_labels(const efl_int32* src, efl_int64, const efl_int32* ids, efl_int64 count,
                                efl_int32* dst) {
    for (int64_t b = 0; b < count; ++b) dst[b] = src[ids[b]];
    return EFL_OK;
}

static void take_of_example(const float* x, int64_t taken, int64_t inner, efl_index ids, float* y) {
    if (inner == 1) {
        for (int64_t k = 0; k < taken; ++k) y[k] = x[id_of(ids, k)];
        return;
    }
    for (int64_t k = 0; k < taken; ++k) memcpy(y + k * inner, x + id_of(ids, k) * inner, size_t(inner) * sizeof(float));
}

static efl_status take_channels_f32(const float* x, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index ids,
                                    float* y) {
    const int64_t taken = count_of(ids, channels);
    split(batch, taken * inner, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b)
            take_of_example(x + b * channels * inner, taken, inner, ids, y + b * taken * inner);
    });
    return EFL_OK;
}
