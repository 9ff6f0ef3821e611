// The outer-product microkernel: a few rows times a few words, held in registers over all the terms of a sum.
// Convolutions (forward, input gradient) and the linear gradients are made of it.
//
//     c[row m][word v] = start[m] + sum over t of a[t][m] * b[from v + off[t]]
//
// `a` is packed, so its loads are broadcasts of consecutive floats. `b` is any memory whose words are contiguous: the
// shifted planes of an image and a packed panel differ in the table `off` alone, so a convolution needs no im2col.

constexpr int ACCUMULATORS = REGISTERS / 4 * 3;  // the other registers hold the operands of one term
constexpr int MAX_ROWS = READS_IN_FMA ? ACCUMULATORS / 2 : ACCUMULATORS / 3;
constexpr int64_t MAX_TERMS = REGISTERS < 32 ? 384 : 448;  // a pass: a panel and the lines it meets stay in L1

// One word of the result: where it starts in `b` and in a row of `c`, and how many of its lanes count.
struct Word {
    int64_t from, to, lanes;
};

struct Product {
    const float* a;  // [terms][rows]
    const float* b;
    const int64_t* off;  // [terms]
    int64_t terms;
    const float* start;  // [rows]; nullptr: start from what c holds
    float* c;
    const int64_t* row;  // [rows], where each row starts in c
    const Word* words;
};

// All terms of one tile, whose words begin at b, as cores want it that execute in order.
template <int ROWS, int WORDS>
__attribute__((always_inline)) static inline void add_grouped(const Product& p, const float* const (&b)[WORDS],
                                                              vf (&acc)[ROWS][WORDS]) {
    WordsByTable<WORDS> from{p.a, ROWS * int64_t(sizeof(float)), {}, p.off};
    EFL_UNROLL
    for (int v = 0; v < WORDS; ++v) from.b[v] = b[v];
    add_terms_in_order(from, p.terms, acc);
}

// `tiles` neighbouring tiles of WORDS words each. Terms are taken two at a time: on Zen 3 that is 93 to 98 % of the
// peak rate on long sums, and 60 to 90 % with two rows; a call per run of tiles instead of per tile is a third of a sum
// of four terms.
template <int ROWS, int WORDS, bool GROUPED = false>
static void outer(const Product& whole, int64_t tiles) {
    const Product p = whole;
    for (const Word* word = p.words; tiles > 0; --tiles, word += WORDS) {
        vf acc[ROWS][WORDS];
        const float* b[WORDS];
        EFL_UNROLL
        for (int v = 0; v < WORDS; ++v) {
            b[v] = p.b + word[v].from;
            EFL_UNROLL
            for (int m = 0; m < ROWS; ++m)
                acc[m][v] = p.start ? set1(p.start[m]) : load_n(p.c + p.row[m] + word[v].to, int(word[v].lanes));
        }
        if constexpr (GROUPED) {
            add_grouped<ROWS, WORDS>(p, b, acc);
        } else {
            const float* a = p.a;
            EFL_PRAGMA(GCC unroll 2)
            for (int64_t t = 0; t < p.terms; ++t, a += ROWS) {
                const int64_t off = p.off[t];
                if (ROWS >= WORDS) {  // keep the shorter operand in registers
                    vf x[WORDS];
                    EFL_UNROLL
                    for (int v = 0; v < WORDS; ++v) x[v] = load(b[v] + off);
                    EFL_UNROLL
                    for (int m = 0; m < ROWS; ++m) {
                        const vf w = set1(a[m]);
                        EFL_UNROLL
                        for (int v = 0; v < WORDS; ++v) acc[m][v] = fma(w, x[v], acc[m][v]);
                    }
                } else {
                    vf w[ROWS];
                    EFL_UNROLL
                    for (int m = 0; m < ROWS; ++m) w[m] = set1(a[m]);
                    EFL_UNROLL
                    for (int v = 0; v < WORDS; ++v) {
                        const vf x = load(b[v] + off);
                        EFL_UNROLL
                        for (int m = 0; m < ROWS; ++m) acc[m][v] = fma(w[m], x, acc[m][v]);
                    }
                }
            }
        }
        EFL_UNROLL
        for (int v = 0; v < WORDS; ++v) {
            float* c = p.c + word[v].to;
            const int lanes = int(word[v].lanes);
            if (lanes == W) {
                EFL_UNROLL
                for (int m = 0; m < ROWS; ++m) store(c + p.row[m], acc[m][v]);
            } else {
                EFL_UNROLL
                for (int m = 0; m < ROWS; ++m) store_n(c + p.row[m], acc[m][v], lanes);
            }
        }
    }
}

constexpr int words_per_tile(int rows) { return ACCUMULATORS / rows > 8 ? 8 : ACCUMULATORS / rows; }

// Tiles of 1 to WORDS words.
template <int ROWS, int WORDS>
static void outer_words(const Product& p, int64_t words, int64_t tiles) {
    if (words == WORDS) {
        if constexpr (IN_ORDER<ROWS, WORDS>)
            if (in_order()) return outer<ROWS, WORDS, true>(p, tiles);
        return outer<ROWS, WORDS>(p, tiles);
    }
    if constexpr (WORDS > 1) outer_words<ROWS, WORDS - 1>(p, words, tiles);
}

// The product of 1 to ROWS rows with any number of words.
template <int ROWS = MAX_ROWS>
static void outer_product(Product p, int64_t rows, int64_t words) {
    if (rows == ROWS) {
        constexpr int most = words_per_tile(ROWS);
        if (words <= most) return outer_words<ROWS, most>(p, words, 1);
        const int64_t tiles = (words + most - 1) / most, larger = words % tiles, size = words / tiles;
        outer_words<ROWS, most>(p, size + 1, larger);
        p.words += larger * (size + 1);
        outer_words<ROWS, most>(p, size, tiles - larger);
    } else if constexpr (ROWS > 1) {
        outer_product<ROWS - 1>(p, rows, words);
    }
}
