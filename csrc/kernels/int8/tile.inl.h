// The sums of a tile: a few positions and a few vectors of outputs, in registers over all groups.

template <int VECTORS>
constexpr int POSITIONS = (MOST_SUMS < 8 * VECTORS ? MOST_SUMS / VECTORS : 8) * AT_ONCE;

// Groups of a sum: some runs of groups, a row of taps apart.
struct GroupRuns {
    int64_t first, count, length, pitch;
};

// sums[position][output] of VECTORS vectors of outputs, whose weights lie `pitch` codes apart.
template <int VECTORS>
static void sum_tile(const Code* weights, int64_t pitch, const Code* const* at, const int64_t* off,
                     const GroupRuns& runs, int32_t* sums) {
    constexpr int ROWS = POSITIONS<VECTORS> / AT_ONCE;
    Sums found[ROWS][VECTORS];
    EFL_UNROLL
    for (int i = 0; i < ROWS * VECTORS; ++i) found[i / VECTORS][i % VECTORS] = no_sums();
    for (int64_t r = 0; r < runs.count; ++r) {
        const int64_t first = runs.first + r * runs.pitch, end = first + runs.length;
        const Code* from = weights + first * OUTS * CODES;
        for (int64_t g = first; g < end; ++g, from += OUTS * CODES) {
            Weights w[VECTORS];
            EFL_UNROLL
            for (int v = 0; v < VECTORS; ++v) w[v] = load_weights(from + v * pitch);
            EFL_UNROLL
            for (int p = 0; p < ROWS; ++p) {
                const Inputs a = load_inputs(at + p * AT_ONCE, off[g]);
                EFL_UNROLL
                for (int v = 0; v < VECTORS; ++v) found[p][v] = add_products(found[p][v], w[v], a);
            }
        }
    }
    EFL_UNROLL
    for (int p = 0; p < ROWS; ++p) {
        EFL_UNROLL
        for (int v = 0; v < VECTORS; ++v)
            store_sums(found[p][v], sums + p * AT_ONCE * VECTORS * OUTS + v * OUTS, VECTORS * OUTS);
    }
}
