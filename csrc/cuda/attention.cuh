// Attention of the positions of a sequence to each other, by heads. Contracts: edgefl/kernels/table.py.
//
// A block has some positions of a head for its own and takes all that they meet HELD at a time, as a tile of shared
// memory. A column of it needs a sum over all of its keys before what comes of them is known: where more than HELD keys
// count their tiles are made once for the sum and once again. Causal attention passes over tiles that count for
// nothing. Going back one launch has queries for its own, a second keys, so that no sum is split.
#pragma once
#include "attention_tile.cuh"

namespace attention {

constexpr int WARPS = ATTENTION_THREADS / OWN;  // that share the rows of a tile; a thread of each has a column

template <int HELD>
struct AttentionMemory {
    Stage stage;
    alignas(16) float tile[HELD * OWN];
    float tops[WARPS][OWN], totals[WARPS][OWN];
};

// A thread's part of a column: a query, and keys of the tile from row `warp` on, WARPS apart.
struct Column {
    int query, end;  // of the keys that count
    int warp, lane;
    int share;  // where its first one lies in [keys][queries] of shares
};

EFL_DEVICE Column column_of_thread(const Lines& lines, const Tile& tile) {
    const int lane = int(threadIdx.x) % OWN, positions = int(lines.positions), query = tile.first + lane;
    const int end = query >= positions ? 0 : lines.is_causal ? query + 1 : positions;
    return {query, end, int(threadIdx.x) / OWN, lane, shares_at(lines, tile) + query};
}

// visit(value of the tile, its key) for those of the keys [from, to) that count.
template <class Visit>
EFL_DEVICE void each_counted(const Column& column, float* tile, int from, int to, Visit visit) {
    const int end = smaller(to, column.end);
    EFL_ROLLED
    for (int key = from + column.warp; key < end; key += WARPS) visit(tile[(key - from) * OWN + column.lane], key);
}

// Zeros below what counts, where the tile is multiplied.
EFL_DEVICE void clear(const Column& column, float* tile, int from, int to) {
    EFL_ROLLED
    for (int key = from + column.warp; key < to; key += WARPS)
        if (key >= column.end) tile[(key - from) * OWN + column.lane] = 0;
}

EFL_DEVICE int share_at(const Lines& lines, const Column& column, int key) {
    return column.share + key * int(lines.positions);
}

// What is asked of a tile's columns: `look` at each, `settle` what is asked of all of them, `change` each into what is
// multiplied, where again is whether it has been made anew since the look. What is asked forward: softmax.
struct Softmax {
    float* kept;  // shares, or null
    float top, total, share;
};

EFL_DEVICE void look(const Lines&, const Column& column, float* tile, int from, int to, Softmax& softmax) {
    float top = softmax.top;
    each_counted(column, tile, from, to, [&](float score, int) { top = larger(top, score); });
    float total = top > softmax.top ? softmax.total * expf(softmax.top - top) : softmax.total;
    each_counted(column, tile, from, to, [&](float& score, int) { total += score = expf(score - top); });
    softmax.top = top;
    softmax.total = total;
}

template <int HELD>
EFL_DEVICE void settle(const Lines&, const Column& column, AttentionMemory<HELD>& memory, Softmax& softmax) {
    memory.tops[column.warp][column.lane] = softmax.top;
    memory.totals[column.warp][column.lane] = softmax.total;
    barrier();
    float top = softmax.top, total = 0;
    for (int w = 0; w < WARPS; ++w) top = larger(top, memory.tops[w][column.lane]);
    for (int w = 0; w < WARPS; ++w)
        total = fmaf(memory.totals[w][column.lane], expf(memory.tops[w][column.lane] - top), total);
    softmax.share = expf(softmax.top - top) / total;
}

EFL_DEVICE void change(const Lines& lines, const Column& column, float& value, int key, bool again, Softmax& softmax) {
    value = (again ? expf(value - softmax.top) : value) * softmax.share;
    if (softmax.kept) softmax.kept[share_at(lines, column, key)] = value;
}

// What is asked back: slopes of shares become those of scores.
struct Slopes {
    const float* shares;
    float* totals;  // as AttentionBackwardArgs has them
    float total, scale;
};

EFL_DEVICE void look(const Lines& lines, const Column& column, float* tile, int from, int to, Slopes& slopes) {
    each_counted(column, tile, from, to, [&](float slope, int key) {
        slopes.total = fmaf(slopes.shares[share_at(lines, column, key)], slope, slopes.total);
    });
}

template <int HELD>
EFL_DEVICE void settle(const Lines& lines, const Column& column, AttentionMemory<HELD>& memory, Slopes& slopes) {
    memory.totals[column.warp][column.lane] = slopes.total;
    barrier();
    slopes.total = 0;
    for (int w = 0; w < WARPS; ++w) slopes.total += memory.totals[w][column.lane];
    if (column.warp == 0 && column.query < lines.positions)
        slopes.totals[totals_at(lines) + column.query] = slopes.total;
}

EFL_DEVICE void change(const Lines& lines, const Column& column, float& value, int key, bool, Slopes& slopes) {
    value = slopes.scale * slopes.shares[share_at(lines, column, key)] * (value - slopes.total);
}

// out[c][query] = sum over the keys of values[c][key] what `asked` makes of factor * (far * near)[key][query].
template <int HELD, class Asked>
EFL_DEVICE void by_queries(const Lines& lines, const Tile& own, AttentionMemory<HELD>& memory, const Pair& pair,
                           float factor, const float* values, float* out, Asked& asked) {
    const Column column = column_of_thread(lines, own);
    const int positions = int(lines.positions), end = lines.is_causal ? smaller(own.first + OWN, positions) : positions;
    const bool again = end > HELD;
    int turn = 0;
    EFL_ROLLED
    for (int pass = 0; pass < 2; ++pass) {
        EFL_ROLLED
        for (int key = 0; key < end; key += HELD) {
            const int to = smaller(key + HELD, end);
            if (pass == 0 || again) {
                pairs(lines, memory.stage, turn, pair, key, to, factor, memory.tile);
                barrier();
            }
            if (pass == 0) {
                look(lines, column, memory.tile, key, to, asked);
                continue;
            }
            each_counted(column, memory.tile, key, to,
                         [&](float& value, int at) { change(lines, column, value, at, again, asked); });
            clear(column, memory.tile, key, rounded(to, 4));
            sum_over(lines, memory.stage, turn, {values, memory.tile, OWN, key, to, own.first, key > 0}, out);
        }
        if (pass == 0) settle(lines, column, memory, asked);
    }
}

template <int HELD>
EFL_DEVICE void forward(const AttentionForwardArgs& a, AttentionMemory<HELD>& memory) {
    const Tile own = tile_of_block(a.lines);
    const float *const queries = a.qkv + part_at(a.lines, own, 3, 0), *const keys = a.qkv + part_at(a.lines, own, 3, 1);
    const float* const values = a.qkv + part_at(a.lines, own, 3, 2);
    Softmax softmax = {a.shares, -INFINITY, 0, 0};
    const Pair pair = {keys, queries, own.first};
    by_queries(a.lines, own, memory, pair, float(a.lines.scale), values, a.y + part_at(a.lines, own, 1, 0), softmax);
    const Column column = column_of_thread(a.lines, own);
    const int positions = int(a.lines.positions);
    if (!softmax.kept || column.query >= positions) return;
    EFL_ROLLED
    for (int key = own.first + column.warp; key < positions; key += WARPS)
        if (key >= column.end) softmax.kept[share_at(a.lines, column, key)] = 0;
}

EFL_KERNEL(attention_forward_short, EFL_RESIDENT(ATTENTION_THREADS, 4)) {
    EFL_SHARED AttentionMemory<OTHERS> memory;
    forward(a, memory);
}

EFL_KERNEL(attention_forward_long, EFL_RESIDENT(ATTENTION_THREADS, 4)) {
    EFL_SHARED AttentionMemory<4 * OTHERS> memory;
    forward(a, memory);
}

// ---- back ---------------------------------------------------------------------------------------------------------

template <int HELD>
EFL_DEVICE void queries_back(const AttentionBackwardArgs& a, AttentionMemory<HELD>& memory) {
    const Tile own = tile_of_block(a.lines);
    const float *const keys = a.qkv + part_at(a.lines, own, 3, 1), *const values = a.qkv + part_at(a.lines, own, 3, 2);
    const float* const dy = a.dy + part_at(a.lines, own, 1, 0);
    Slopes slopes = {a.shares, a.totals, 0, float(a.lines.scale)};
    const Pair pair = {values, dy, own.first};
    by_queries(a.lines, own, memory, pair, 1.0f, keys, a.dqkv + part_at(a.lines, own, 3, 0), slopes);
}

EFL_KERNEL(attention_queries_short, EFL_RESIDENT(ATTENTION_THREADS, 4)) {
    EFL_SHARED AttentionMemory<OTHERS> memory;
    queries_back(a, memory);
}

EFL_KERNEL(attention_queries_long, EFL_RESIDENT(ATTENTION_THREADS, 4)) {
    EFL_SHARED AttentionMemory<4 * OTHERS> memory;
    queries_back(a, memory);
}

constexpr int SHARE_PITCH = OWN + 4;  // what a warp stores at once, of 4 keys and 8 queries, lies in different banks

struct KeyMemory {
    Stage stage;
    alignas(16) float slopes[OTHERS * OWN];
    alignas(16) float shares[OTHERS * SHARE_PITCH];
};

// A thread's shares of OTHERS queries and OWN keys, which are turned on their way to shared memory.
struct TurnedShares {
    static constexpr int QUERIES = 8, KEYS = ATTENTION_THREADS / QUERIES;  // of a block at once
    float of[OTHERS / QUERIES][OWN / KEYS];
};

EFL_DEVICE void fetch(const float* shares, int positions, int query, int key, TurnedShares& next) {
    using Turned = TurnedShares;
    EFL_UNROLL
    for (int m = 0; m < OTHERS / Turned::QUERIES; ++m) {
        EFL_UNROLL
        for (int n = 0; n < OWN / Turned::KEYS; ++n) {
            const int i = query + int(threadIdx.x) % Turned::QUERIES + m * Turned::QUERIES;
            const int j = key + int(threadIdx.x) / Turned::QUERIES + n * Turned::KEYS;
            next.of[m][n] = i < positions && j < positions ? shares[j * positions + i] : 0.0f;
        }
    }
}

EFL_DEVICE void store(const TurnedShares& next, float* shares) {
    using Turned = TurnedShares;
    shares += int(threadIdx.x) % Turned::QUERIES * SHARE_PITCH + int(threadIdx.x) / Turned::QUERIES;
    EFL_UNROLL
    for (int m = 0; m < OTHERS / Turned::QUERIES; ++m) {
        EFL_UNROLL
        for (int n = 0; n < OWN / Turned::KEYS; ++n)
            shares[m * Turned::QUERIES * SHARE_PITCH + n * Turned::KEYS] = next.of[m][n];
    }
}

// Slopes of the shares of the queries [from, to), one below the other, become those of scores.
EFL_DEVICE void change(KeyMemory& memory, const float* totals, int from, int to, float scale) {
    const int lane = int(threadIdx.x) % OWN, rows = rounded(to - from, 4);
    EFL_ROLLED
    for (int row = int(threadIdx.x) / OWN; row < rows; row += WARPS) {
        const float total = from + row < to ? totals[from + row] : 0.0f;
        float& slope = memory.slopes[row * OWN + lane];
        slope = scale * memory.shares[row * SHARE_PITCH + lane] * (slope - total);
    }
}

EFL_KERNEL(attention_keys, EFL_RESIDENT(ATTENTION_THREADS, 4)) {
    EFL_SHARED KeyMemory memory;
    const Tile own = tile_of_block(a.lines);
    const int positions = int(a.lines.positions), begin = a.lines.is_causal ? own.first : 0;
    const float *const queries = a.qkv + part_at(a.lines, own, 3, 0), *const dy = a.dy + part_at(a.lines, own, 1, 0);
    const Pair pair = {dy, a.qkv + part_at(a.lines, own, 3, 2), own.first};
    int turn = 0;
    EFL_ROLLED
    for (int query = begin; query < positions; query += OTHERS) {
        const int to = smaller(query + OTHERS, positions);
        TurnedShares next;
        fetch(a.shares + shares_at(a.lines, own), positions, query, own.first, next);
        pairs(a.lines, memory.stage, turn, pair, query, to, 1.0f, memory.slopes);
        store(next, memory.shares);  // what was there has been read before a barrier of `pairs`
        barrier();
        change(memory, a.totals + totals_at(a.lines), query, to, float(a.lines.scale));
        const Over of_keys = {queries, memory.slopes, OWN, query, to, own.first, query > begin};
        const Over of_values = {dy, memory.shares, SHARE_PITCH, query, to, own.first, query > begin};
        EFL_ROLLED
        for (int part = 1; part <= 2; ++part)
            sum_over(a.lines, memory.stage, turn, part == 1 ? of_keys : of_values,
                     a.dqkv + part_at(a.lines, own, 3, part));
    }
}

}  // namespace attention
