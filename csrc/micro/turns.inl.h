// Loops over floats by several vectors a turn, where a turn's own instructions weigh as much as the vectors'.

constexpr int TURN = READS_IN_FMA ? 1 : 4;

// y[i] = value(i), a vector, for every whole vector of n floats; where the rest begins. A turn's vectors are stored
// after all of them are computed.
template <class Value>
__attribute__((always_inline)) static inline int64_t write_vectors(int64_t n, float* y, const Value& value) {
    int64_t i = 0;
    if constexpr (TURN > 1) {
        EFL_PRAGMA(GCC unroll 1)
        for (; i + TURN * W <= n; i += TURN * W) {
            vf v[TURN];
            EFL_UNROLL
            for (int k = 0; k < TURN; ++k) v[k] = value(i + k * W);
            EFL_UNROLL
            for (int k = 0; k < TURN; ++k) store(y + i + k * W, v[k]);
        }
    }
    EFL_PRAGMA(GCC unroll 1)
    for (; i + W <= n; i += W) store(y + i, value(i));
    return i;
}
