// A frozen weight in fewer bits, [rows, cols]: bfloat16 values of two bytes each, or int8 codes, of which each stands
// for its code times the scale of its row, of its column, or of both. Products with a scale are rounded to float32.

struct StoredWeight {
    const uint8_t* codes;
    int64_t cols, bytes;  // columns; bytes of a value
    const float *row_scale, *col_scale;

    // The values of the columns [first, first + count) of a row.
    void widen(int64_t row, int64_t first, int64_t count, float* to) const {
        const uint8_t* from = codes + (row * cols + first) * bytes;
        if (bytes == 2) return widen_halves(from, count, to);
        for (int64_t i = 0; i < count; ++i) to[i] = float(int8_t(from[i]));
        if (row_scale)
            for (int64_t i = 0; i < count; ++i) to[i] *= row_scale[row];
        if (col_scale)
            for (int64_t i = 0; i < count; ++i) to[i] *= col_scale[first + i];
    }

    static void widen_halves(const uint8_t* from, int64_t count, float* to) {
        for (int64_t i = 0; i < count; ++i) {
            uint16_t half;
            memcpy(&half, from + 2 * i, 2);
            const uint32_t bits = uint32_t(half) << 16;
            memcpy(to + i, &bits, 4);
        }
    }
};
