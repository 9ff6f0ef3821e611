// What attention is made of: the heads of lines, and two products of a block's own places with others: one makes a tile
// [others][own] in shared memory, one sums over its rows. No kernels: attention.cuh has them.
//
// A part of a head, its queries say, is [channels, places]. While operands are multiplied the next are on their way to
// registers; they are stored in the two halves of Stage by turns, of which one has been read when the barrier after the
// other is passed. Each sum takes its terms in their order, by fmaf.
#pragma once
#include "portable.cuh"

namespace attention {

constexpr int ATTENTION_THREADS = 128;
constexpr int OWN = 32;                           // places of a block: columns of its tiles
constexpr int OTHERS = 64;                        // rows of a tile that are made at once
constexpr int TERMS = 16;                         // of a sum, staged at once
constexpr int EACH = 4;                           // neighbouring columns of a thread, and rows in `pairs`
constexpr int ACROSS = OWN / EACH;                // threads that share rows
constexpr int DOWN = ATTENTION_THREADS / ACROSS;  // and columns
constexpr int SIDES = OTHERS + OWN;               // values of a term in `pairs`
constexpr int CHANNEL_PITCH = TERMS + 4;          // in `over`: channels of a warp's threads lie in different banks

struct Lines {
    Ids heads;
    Size all_heads, size, places;  // size: channels of a head
    Size tiles;                    // of a line
    Size is_causal;
    double scale;  // of scores
};

struct Stage {
    alignas(16) float values[2][TERMS * SIDES];
    static_assert(EACH * DOWN * CHANNEL_PITCH <= TERMS * SIDES, "channels of `over`");
};

// A block's head of an image, and the first of its places.
struct Tile {
    int image, head, first;
    int slot;  // of the head, among all that the launch has
};

EFL_DEVICE Tile tile_of_block(const Lines& lines) {
    const int block = int(blockIdx.x), tiles = int(lines.tiles), heads = int(lines.heads.count);
    const int slot = block / tiles;
    return {slot / heads, id_at(lines.heads, slot % heads), block % tiles * OWN, slot};
}

// Where a part of the tile's head begins among `parts` of them: queries, keys and values; or the result alone.
EFL_DEVICE int part_at(const Lines& lines, const Tile& tile, int parts, int part) {
    const int heads = int(lines.all_heads);
    return ((tile.image * parts + part) * heads + tile.head) * int(lines.size) * int(lines.places);
}

EFL_DEVICE int shares_at(const Lines& lines, const Tile& tile) {
    return (tile.image * int(lines.all_heads) + tile.head) * int(lines.places) * int(lines.places);
}

EFL_DEVICE int rounded(int count, int to) { return (count + to - 1) / to * to; }

EFL_DEVICE int own_of_thread() { return int(threadIdx.x) % ACROSS * EACH; }
EFL_DEVICE int group_of_thread() { return int(threadIdx.x) / ACROSS; }

EFL_DEVICE float4 four_at(const float* at) { return *reinterpret_cast<const float4*>(at); }

EFL_DEVICE void add_product(float (&sums)[EACH], float factor, const float4& four) {
    sums[0] = fmaf(factor, four.x, sums[0]);
    sums[1] = fmaf(factor, four.y, sums[1]);
    sums[2] = fmaf(factor, four.z, sums[2]);
    sums[3] = fmaf(factor, four.w, sums[3]);
}

// ---- tile[other][own] = scale * sum over channels of far[c][other] near[c][own]
// --------------------------------------

struct Pair {
    const float *far, *near;  // of a head; zeros beyond its channels and places
    int own;                  // the first
};

struct PairValues {
    static constexpr int FAR = TERMS * OTHERS / ATTENTION_THREADS, NEAR = TERMS * OWN / ATTENTION_THREADS;
    float far[FAR], near[NEAR];
};

EFL_DEVICE void fetch(const Lines& lines, const Pair& pair, int other, int channel, PairValues& next) {
    const int size = int(lines.size), places = int(lines.places), thread = int(threadIdx.x);
    const int far = other + thread % OTHERS, near = pair.own + thread % OWN;
    EFL_UNROLL
    for (int m = 0; m < PairValues::FAR; ++m) {
        const int c = channel + thread / OTHERS + m * (ATTENTION_THREADS / OTHERS);
        next.far[m] = c < size && far < places ? pair.far[c * places + far] : 0.0f;
    }
    EFL_UNROLL
    for (int m = 0; m < PairValues::NEAR; ++m) {
        const int c = channel + thread / OWN + m * (ATTENTION_THREADS / OWN);
        next.near[m] = c < size && near < places ? pair.near[c * places + near] : 0.0f;
    }
}

EFL_DEVICE void store(const PairValues& next, float* stage) {
    const int thread = int(threadIdx.x);
    EFL_UNROLL
    for (int m = 0; m < PairValues::FAR; ++m)
        stage[(thread / OTHERS + m * (ATTENTION_THREADS / OTHERS)) * SIDES + thread % OTHERS] = next.far[m];
    EFL_UNROLL
    for (int m = 0; m < PairValues::NEAR; ++m)
        stage[(thread / OWN + m * (ATTENTION_THREADS / OWN)) * SIDES + OTHERS + thread % OWN] = next.near[m];
}

// Of some terms, a multiple of 4.
EFL_DEVICE void add_pairs(float (&sums)[EACH][EACH], const float* stage, int terms) {
    const float *far = stage + group_of_thread() * EACH, *near = stage + OTHERS + own_of_thread();
    EFL_ROLLED
    for (int t = 0; t < terms; t += 4) {
        EFL_UNROLL
        for (int u = 0; u < 4; ++u, far += SIDES, near += SIDES) {
            const float4 rows = four_at(far), columns = four_at(near);
            add_product(sums[0], rows.x, columns);
            add_product(sums[1], rows.y, columns);
            add_product(sums[2], rows.z, columns);
            add_product(sums[3], rows.w, columns);
        }
    }
}

// Of the others [from, to): rows from - from on of tile [..][OWN], whose rows up to a multiple of 4 are written. Before
// it writes a barrier has been passed; the caller's is to follow.
EFL_DEVICE void pairs(const Lines& lines, Stage& stage, int& turn, const Pair& pair, int from, int to, float scale,
                      float* tile) {
    const int size = larger(int(lines.size), 1), row = group_of_thread() * EACH;
    PairValues next;
    fetch(lines, pair, from, 0, next);
    EFL_ROLLED
    for (int other = from; other < to; other += OTHERS) {
        float sums[EACH][EACH] = {};
        const bool has_rows = other + row < to;
        EFL_ROLLED
        for (int channel = 0; channel < size; channel += TERMS, turn ^= 1) {
            store(next, stage.values[turn]);
            barrier();
            const bool is_last = channel + TERMS >= size;
            if (!is_last || other + OTHERS < to)
                fetch(lines, pair, is_last ? other + OTHERS : other, is_last ? 0 : channel + TERMS, next);
            if (has_rows) add_pairs(sums, stage.values[turn], smaller(rounded(size - channel, 4), TERMS));
        }
        if (!has_rows) continue;
        EFL_UNROLL
        for (int m = 0; m < EACH; ++m) {
            float* const four = tile + (other - from + row + m) * OWN + own_of_thread();
            *reinterpret_cast<float4*>(four) =
                make_float4(scale * sums[m][0], scale * sums[m][1], scale * sums[m][2], scale * sums[m][3]);
        }
    }
}

// ---- out[c][own] = sum over others of values[c][other] tile[other][own]
// ----------------------------------------------

// A tile's rows stand for the others [from, to); those up to a multiple of 4 are there, zeros beyond the places.
struct Over {
    const float* values;  // of a head
    const float* tile;
    int pitch;  // of the tile
    int from, to, own;
    bool adds;  // to what is in out
};

template <int ROWS>
struct OverValues {
    static constexpr int EVERY = ATTENTION_THREADS / TERMS, COUNT = ROWS * DOWN / EVERY;
    float of[COUNT];
};

template <int ROWS>
EFL_DEVICE void fetch(const Lines& lines, const Over& over, int channel, int other, OverValues<ROWS>& next) {
    using Values = OverValues<ROWS>;
    const int size = int(lines.size), places = int(lines.places), thread = int(threadIdx.x);
    const int at = other + thread % TERMS;
    EFL_UNROLL
    for (int m = 0; m < Values::COUNT; ++m) {
        const int c = channel + thread / TERMS + m * Values::EVERY;
        next.of[m] = c < size && at < places ? over.values[c * places + at] : 0.0f;
    }
}

template <int ROWS>
EFL_DEVICE void store(const OverValues<ROWS>& next, float* stage) {
    using Values = OverValues<ROWS>;
    const int thread = int(threadIdx.x);
    EFL_UNROLL
    for (int m = 0; m < Values::COUNT; ++m)
        stage[(thread / TERMS + m * Values::EVERY) * CHANNEL_PITCH + thread % TERMS] = next.of[m];
}

template <int ROWS>
EFL_DEVICE void add_over(float (&sums)[ROWS][EACH], const float* stage, const float* tile, int pitch, int terms) {
    stage += group_of_thread() * CHANNEL_PITCH;
    tile += own_of_thread();
    EFL_ROLLED
    for (int t = 0; t < terms; t += 4, stage += 4, tile += 4 * pitch) {
        const float4 first = four_at(tile), second = four_at(tile + pitch);
        const float4 third = four_at(tile + 2 * pitch), fourth = four_at(tile + 3 * pitch);
        EFL_UNROLL
        for (int m = 0; m < ROWS; ++m) {
            const float4 values = four_at(stage + m * DOWN * CHANNEL_PITCH);
            add_product(sums[m], values.x, first);
            add_product(sums[m], values.y, second);
            add_product(sums[m], values.z, third);
            add_product(sums[m], values.w, fourth);
        }
    }
}

// Of the channels from `channel` on, ROWS a thread.
template <int ROWS>
EFL_DEVICE void over_channels(const Lines& lines, Stage& stage, int& turn, const Over& over, int channel, float* out) {
    const int size = int(lines.size), places = int(lines.places);
    const int first = channel + group_of_thread(), own = over.own + own_of_thread();
    float sums[ROWS][EACH];
    OverValues<ROWS> next;
    fetch(lines, over, channel, over.from, next);
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        EFL_UNROLL
        for (int n = 0; n < EACH; ++n) {
            const bool is_there = over.adds && first + m * DOWN < size && own + n < places;
            sums[m][n] = is_there ? out[(first + m * DOWN) * places + own + n] : 0.0f;
        }
    }
    EFL_ROLLED
    for (int other = over.from; other < over.to; other += TERMS, turn ^= 1) {
        store(next, stage.values[turn]);
        barrier();
        if (other + TERMS < over.to) fetch(lines, over, channel, other + TERMS, next);
        const int terms = smaller(rounded(over.to - other, 4), TERMS);
        add_over(sums, stage.values[turn], over.tile + (other - over.from) * over.pitch, over.pitch, terms);
    }
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m) {
        EFL_UNROLL
        for (int n = 0; n < EACH; ++n)
            if (first + m * DOWN < size && own + n < places) out[(first + m * DOWN) * places + own + n] = sums[m][n];
    }
}

// It reads the tile after a barrier.
EFL_DEVICE void sum_over(const Lines& lines, Stage& stage, int& turn, const Over& over, float* out) {
    EFL_ROLLED
    for (int channel = 0, size = int(lines.size); channel < size;) {
        const int left = size - channel;
        if (left > 3 * DOWN) {
            over_channels<4>(lines, stage, turn, over, channel, out);
            channel += 4 * DOWN;
        } else if (left > DOWN) {
            over_channels<2>(lines, stage, turn, over, channel, out);
            channel += 2 * DOWN;
        } else {
            over_channels<1>(lines, stage, turn, over, channel, out);
            channel += DOWN;
        }
    }
}

}  // namespace attention
