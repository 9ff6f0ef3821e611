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
        const float* of_columns = col_scale ? col_scale + first : nullptr;
        const int64_t done = widen_by_words(from, row_scale ? row_scale[row] : 1, of_columns, count, to);
        for (int64_t i = done; i < count; ++i) to[i] = float(int8_t(from[i]));
        if (row_scale)
            for (int64_t i = done; i < count; ++i) to[i] *= row_scale[row];
        if (of_columns)
            for (int64_t i = done; i < count; ++i) to[i] *= of_columns[i];
    }

    // The first codes, in one pass, where an instruction set loads them by words; how many those are. A product with 1
    // is exact.
    static int64_t widen_by_words(const uint8_t* from, float scale, const float* of_columns, int64_t count, float* to) {
        int64_t i = 0;
#if defined(EFL_LOADS_CODES)
        for (; i + 4 * W <= count; i += 4 * W) {
            vf v[4];
            load_codes(from + i, v);
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) v[k] = mul(v[k], set1(scale));
            EFL_UNROLL
            for (int k = 0; of_columns && k < 4; ++k) v[k] = mul(v[k], load(of_columns + i + k * W));
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) store(to + i + k * W, v[k]);
        }
#else
        (void)from, (void)scale, (void)of_columns, (void)count, (void)to;
#endif
        return i;
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
