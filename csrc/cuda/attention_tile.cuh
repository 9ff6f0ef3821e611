// What attention is made of: the heads of sequences, and two products of a block's own positions with others: one makes
// a tile [others][own] in shared memory, one sums over its rows. No kernels: attention.cuh has them.
//
// A part of a head, its queries say, is [channels, positions]. While operands are multiplied the next are on their way
// to registers; they are stored in the two halves of Stage by turns, of which one has been read when the barrier after
// the other is passed. Each sum takes its terms in their order, by fmaf.
#pragma once
#include "places.cuh"

namespace attention {

constexpr int ATTENTION_THREADS = 128;
constexpr int OWN = 32;                           // positions of a block: columns of its tiles
constexpr int OTHERS = 64;                        // rows of a tile that are made at once
constexpr int TERMS = 16;                         // of a sum, staged at once
constexpr int EACH = 4;                           // neighbouring columns of a thread, and rows in `pairs`
constexpr int ACROSS = OWN / EACH;                // threads that share rows
constexpr int DOWN = ATTENTION_THREADS / ACROSS;  // and columns
constexpr int SIDES = OTHERS + OWN;               // values of a term in `pairs`
constexpr int CHANNEL_PITCH = TERMS + 4;          // in `over`: channels of a warp's threads lie in different banks

struct Stage {
    alignas(16) float values[2][TERMS * SIDES];
    static_assert(EACH * DOWN * CHANNEL_PITCH <= TERMS * SIDES, "channels of `over`");
};

// A block's head of an image, and the first of its positions.
struct Tile {
    int image, head, first;
};

EFL_DEVICE Tile tile_of_block(const Lines& lines) {
    const int block = int(blockIdx.x), tiles = int(lines.tiles), heads = int(lines.heads.count);
    const int slot = block / tiles;
    return {slot / heads, id_at(lines.heads, slot % heads), block % tiles * OWN};
}

// Where a part of the tile's head begins among `parts` of them: queries, keys and values; or the result alone.
EFL_DEVICE int part_at(const Lines& lines, const Tile& tile, int parts, int part) {
    const int heads = int(lines.all_heads);
    return ((tile.image * parts + part) * heads + tile.head) * int(lines.size) * int(lines.positions);
}

EFL_DEVICE int shares_at(const Lines& lines, const Tile& tile) {
    return (tile.image * int(lines.all_heads) + tile.head) * int(lines.positions) * int(lines.positions);
}

// Where a block's values begin in [images, heads that the launch has, positions].
EFL_DEVICE int totals_at(const Lines& lines) { return int(blockIdx.x) / int(lines.tiles) * int(lines.positions); }

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

// Reads a thread's values of a position, from a channel on; a block's values have SPAN positions. Beyond the ends it
// gives zeros.
template <int SPAN, int COUNT>
EFL_DEVICE void fetch(const Lines& lines, const float* head, int channel, int position, float (&next)[COUNT]) {
    constexpr int APART = ATTENTION_THREADS / SPAN;
    const int positions = int(lines.positions), left = position < positions ? int(lines.size) - channel : 0;
    int from = channel * positions + position;
    EFL_UNROLL
    for (int m = 0; m < COUNT; ++m, from += APART * positions) next[m] = m * APART < left ? head[from] : 0.0f;
}

template <int SPAN, int PITCH, int COUNT>
EFL_DEVICE void store(const float (&next)[COUNT], float* stage) {
    constexpr int APART = ATTENTION_THREADS / SPAN;
    stage += int(threadIdx.x) / SPAN * PITCH + int(threadIdx.x) % SPAN;
    EFL_UNROLL
    for (int m = 0; m < COUNT; ++m) stage[m * APART * PITCH] = next[m];
}

// ---- tile[other][own] = scale * sum over channels of far[c][other] near[c][own] -------------------------------------

// What is staged at once: others from one on, channels from one on.
struct Step {
    int other, channel;
};

EFL_DEVICE Step after(const Step& step, int size) {
    return step.channel + TERMS < size ? Step{step.other, step.channel + TERMS} : Step{step.other + OTHERS, 0};
}

struct Pair {
    const float *far, *near;  // of a head; zeros beyond its channels and positions
    int own;                  // the first
};

struct PairValues {
    static constexpr int FAR = TERMS * OTHERS / ATTENTION_THREADS, NEAR = TERMS * OWN / ATTENTION_THREADS;
    float far[FAR], near[NEAR];
};

EFL_DEVICE void fetch(const Lines& lines, const Pair& pair, const Step& step, PairValues& next) {
    const int thread = int(threadIdx.x);
    fetch<OTHERS>(lines, pair.far, step.channel + thread / OTHERS, step.other + thread % OTHERS, next.far);
    fetch<OWN>(lines, pair.near, step.channel + thread / OWN, pair.own + thread % OWN, next.near);
}

EFL_DEVICE void store(const PairValues& next, float* stage) {
    store<OTHERS, SIDES>(next.far, stage);
    store<OWN, SIDES>(next.near, stage + OTHERS);
}

// The sums of a thread's four rows, which begin anew.
EFL_DEVICE void put(float (&sums)[EACH][EACH], float scale, float* to) {
    EFL_UNROLL
    for (int m = 0; m < EACH; ++m) {
        float* const row = to + m * OWN;
        *reinterpret_cast<float4*>(row) =
            make_float4(scale * sums[m][0], scale * sums[m][1], scale * sums[m][2], scale * sums[m][3]);
        sums[m][0] = sums[m][1] = sums[m][2] = sums[m][3] = 0;
    }
}

// Of some terms, a multiple of 4.
EFL_DEVICE void add_pairs(float (&sums)[EACH][EACH], const float* stage, int terms) {
    const float *far = stage + group_of_thread() * EACH, *near = stage + OTHERS + own_of_thread();
    EFL_ROLLED
    for (int t = 0; t < terms; t += 2) {
        EFL_UNROLL
        for (int u = 0; u < 2; ++u, far += SIDES, near += SIDES) {
            const float4 rows = four_at(far), columns = four_at(near);
            add_product(sums[0], rows.x, columns);
            add_product(sums[1], rows.y, columns);
            add_product(sums[2], rows.z, columns);
            add_product(sums[3], rows.w, columns);
        }
    }
}

// Of the others [from, to), one a row of tile [..][OWN], whose rows up to a multiple of 4 are written. Before that a
// barrier has been passed; the caller's is to follow.
EFL_DEVICE void pairs(const Lines& lines, Stage& stage, int& turn, const Pair& pair, int from, int to, float scale,
                      float* tile) {
    const int size = larger(int(lines.size), 1), row = group_of_thread() * EACH;
    float sums[EACH][EACH] = {};
    Step next = {from, 0}, step = {to, 0};
    EFL_ROLLED
    for (;;) {
        PairValues values;
        if (next.other < to) fetch(lines, pair, next, values);
        if (step.other + row < to) {
            add_pairs(sums, stage.values[turn ^ 1], smaller(rounded(size - step.channel, 4), TERMS));
            if (next.channel == 0) put(sums, scale, tile + (step.other - from + row) * OWN + own_of_thread());
        }
        if (next.other >= to) return;
        store(values, stage.values[turn]);
        barrier();
        turn ^= 1;
        step = next;
        next = after(step, size);
    }
}

// ---- out[c][own] = sum over others of values[c][other] tile[other][own] ---------------------------------------------

// A tile's rows stand for the others [from, to); rows up to a multiple of 4 are there, zeros beyond the positions.
struct Over {
    const float* values;  // of a head
    const float* tile;
    int pitch;  // of the tile
    int from, to, own;
    bool adds;  // to what is in out
};

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

// Neighbours of a sequence's last `columns`: four at once where they lie so.
EFL_DEVICE void put(const float (&sums)[EACH], bool adds, int columns, float* to) {
    if (columns >= EACH && are_aligned(to)) {
        float4& four = *reinterpret_cast<float4*>(to);
        const float4 was = adds ? four : make_float4(0, 0, 0, 0);
        four = make_float4(was.x + sums[0], was.y + sums[1], was.z + sums[2], was.w + sums[3]);
        return;
    }
    EFL_UNROLL
    for (int n = 0; n < EACH; ++n)
        if (n < columns) to[n] = adds ? to[n] + sums[n] : sums[n];
}

// Of the channels from `channel` on, ROWS a thread.
template <int ROWS>
EFL_DEVICE void over_channels(const Lines& lines, Stage& stage, int& turn, const Over& over, int channel, float* out) {
    const int thread = int(threadIdx.x);
    float sums[ROWS][EACH] = {};
    EFL_ROLLED
    for (int other = over.from;; other += TERMS) {
        float values[ROWS * DOWN * TERMS / ATTENTION_THREADS];
        if (other < over.to) fetch<TERMS>(lines, over.values, channel + thread / TERMS, other + thread % TERMS, values);
        if (other > over.from) {
            const int at = other - TERMS, terms = smaller(rounded(over.to - at, 4), TERMS);
            add_over(sums, stage.values[turn ^ 1], over.tile + (at - over.from) * over.pitch, over.pitch, terms);
        }
        if (other >= over.to) break;
        store<TERMS, CHANNEL_PITCH>(values, stage.values[turn]);
        barrier();
        turn ^= 1;
    }
    const int positions = int(lines.positions), first = channel + group_of_thread(), own = over.own + own_of_thread();
    const int rows = int(lines.size) - first, columns = positions - own;
    float* to = out + first * positions + own;
    EFL_UNROLL
    for (int m = 0; m < ROWS; ++m, to += DOWN * positions)
        if (m * DOWN < rows) put(sums[m], over.adds, columns, to);
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
