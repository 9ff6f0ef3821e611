// Dropout: y = x times 0 or a scale, by words of a counter-based stream. Contract: efl_dropout of csrc/edgefl.h. The
// same call, on dy, is its backward pass.
//
// Source: Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once
#include "places.cuh"

struct Words {
    unsigned word[4];
};

EFL_DEVICE void philox_round(Words& c, unsigned k0, unsigned k1) {
    const unsigned long long p = 0xD2511F53ull * c.word[0], q = 0xCD9E8D57ull * c.word[2];
    c = {{unsigned(q >> 32) ^ c.word[1] ^ k0, unsigned(q), unsigned(p >> 32) ^ c.word[3] ^ k1, unsigned(p)}};
}

// The words of a block of an example's stream; state: key, step, first example.
EFL_DEVICE Words words_of(const Size* state, int node, int example, unsigned block) {
    Words c = {{block, unsigned(state[2]) + unsigned(example), unsigned(state[1]), unsigned(node)}};
    unsigned k0 = unsigned(state[0]), k1 = unsigned((unsigned long long)(state[0]) >> 32);
    EFL_UNROLL
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) philox_round(c, k0, k1);
    return c;
}

constexpr unsigned TILE_BLOCKS = 16, TILE_VALUES = 64;  // a tile's values take word after word of its blocks

// All values of all channels: a thread takes a block, whose words are of values 16 apart.
EFL_KERNEL(dropout_all, 256) {
    const unsigned size = unsigned(a.chosen.all * a.chosen.inner), tiles = (size + TILE_VALUES - 1) / TILE_VALUES;
    const unsigned threshold = unsigned(a.threshold), blocks = tiles * TILE_BLOCKS;
    const float scale = float(a.scale);
    each_position(a.batch * blocks, [&](int i) {
        const unsigned example = unsigned(i) / blocks, block = unsigned(i) % blocks;
        const Words words = words_of(a.state, int(a.node), int(example), block);
        const unsigned first = block / TILE_BLOCKS * TILE_VALUES + block % TILE_BLOCKS;
        EFL_UNROLL
        for (unsigned k = 0; k < 4; ++k) {
            const unsigned at = first + k * TILE_BLOCKS;
            if (at < size)
                a.y[example * size + at] = a.x[example * size + at] * (words.word[k] >= threshold ? scale : 0);
        }
    });
}

// Of chosen channels, or of whole planes: each value by itself.
EFL_KERNEL(dropout_chosen, 256) {
    const unsigned threshold = unsigned(a.threshold), inner = unsigned(a.chosen.inner);
    const float scale = float(a.scale);
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const ChosenPosition position = position_of(a.chosen, i);
        const unsigned e =
            a.whole ? unsigned(position.channel) : unsigned(position.channel) * inner + unsigned(position.within);
        const unsigned block = e / TILE_VALUES * TILE_BLOCKS + e % TILE_BLOCKS;
        const Words words = words_of(a.state, int(a.node), position.image, block);
        const unsigned k = e % TILE_VALUES / TILE_BLOCKS;
        const unsigned word = k == 0 ? words.word[0] : k == 1 ? words.word[1] : k == 2 ? words.word[2] : words.word[3];
        a.y[position.at] = a.x[position.at] * (word >= threshold ? scale : 0);
    });
}

// Numbers of the open interval (0, 1), each value by itself.
EFL_KERNEL(uniform, 256) {
    const unsigned size = unsigned(a.channels * a.inner);
    each_position(a.batch * a.channels * a.inner, [&](int i) {
        const unsigned example = unsigned(i) / size, e = unsigned(i) % size, k = e % TILE_VALUES / TILE_BLOCKS;
        const unsigned block = e / TILE_VALUES * TILE_BLOCKS + e % TILE_BLOCKS;
        const Words words = words_of(a.state, int(a.node), int(example), block);
        const unsigned word = k == 0 ? words.word[0] : k == 1 ? words.word[1] : k == 2 ? words.word[2] : words.word[3];
        a.y[i] = float(2 * (word >> 9) + 1) / 16777216.0f;
    });
}

EFL_KERNEL(count_step, 1) { ++a.state[1]; }
