// What a dropout multiplies by, by bits of a counter-based stream.
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). A tile of 64 values takes the
// four words of 16 blocks, word after word, so that on every instruction set lanes are blocks and nothing is turned.

constexpr int TILE_BLOCKS = 16, TILE_VALUES = 4 * TILE_BLOCKS;

// The words of W blocks, whose counters differ in their first words alone.
struct Philox {
    vu c0, c1, c2, c3;

    inline void round(uint32_t k0, uint32_t k1) {
        vu p, q;
        const vu p_low = multiplied(c0, 0xD2511F53u, &p), q_low = multiplied(c2, 0xCD9E8D57u, &q);
        c0 = exclusive(exclusive(q, c1), same(k0));
        c2 = exclusive(exclusive(p, c3), same(k1));
        c1 = q_low;
        c3 = p_low;
    }

    inline Philox(uint64_t key, uint32_t first, uint32_t example, uint32_t step, uint32_t node)
        : c0(lanes_from(first)), c1(same(example)), c2(same(step)), c3(same(node)) {
        uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
        EFL_UNROLL
        for (int r = 0; r < 10; ++r, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) round(k0, k1);
    }
};

// What values are multiplied by, of one example of a call.
struct Kept {
    const efl_dropout* d;
    uint64_t key;
    uint32_t example, step;
    int64_t held = -1;  // the tile whose factors these are
    float factors[TILE_VALUES];

    Kept(const efl_dropout* dropout, const efl_int64* state, int64_t b)
        : d(dropout), key(uint64_t(state[0])), example(uint32_t(state[2] + b)), step(uint32_t(state[1])) {}

    inline const float* tile(int64_t number) {
        if (number == held) return factors;
        held = number;
        const uint32_t threshold = uint32_t(d->threshold);
        const vf scale = set1(d->scale);
        for (int i = 0; i < TILE_BLOCKS; i += W) {
            const Philox words(key, uint32_t(number * TILE_BLOCKS + i), example, step, uint32_t(d->node));
            store(factors + i, keep_from(scale, words.c0, threshold));
            store(factors + TILE_BLOCKS + i, keep_from(scale, words.c1, threshold));
            store(factors + 2 * TILE_BLOCKS + i, keep_from(scale, words.c2, threshold));
            store(factors + 3 * TILE_BLOCKS + i, keep_from(scale, words.c3, threshold));
        }
        return factors;
    }

    inline float factor(int64_t i) { return tile(i / TILE_VALUES)[i % TILE_VALUES]; }

    // The values first, ..., last - 1 of the example.
    inline void run(const float* x, int64_t first, int64_t last, float* y) {
        for (int64_t i = first; i < last;) {
            const int64_t number = i / TILE_VALUES, start = number * TILE_VALUES;
            const int64_t end = least(last, start + TILE_VALUES);
            const float* const by = tile(number) - start;
            for (; i + W <= end; i += W) store(y + i, mul(load(x + i), load(by + i)));
            if (i < end) store_n(y + i, mul(load_n(x + i, int(end - i)), load_n(by + i, int(end - i))), int(end - i));
            i = end;
        }
    }
};
