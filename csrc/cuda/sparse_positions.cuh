// What kernels read of a masked weight, unpacked from its structure once a call: where each weight reads its source,
// and which weights a row has. Not the products. Whatever a structure says, positions and slots here are in range.
#pragma once
#include <cstring>

#include "portable.cuh"

// One kept weight: its position in a tile, or in a block's window, and the bits of its value. For gradients its row in
// its panel goes with the position, and its slot is in the position of the value.
struct SparseEntry {
    int position, bits;
};

constexpr int SPARSE_PANEL = 128;  // rows whose gradients are computed together
constexpr int SPARSE_ROW = 1 << 16;

EFL_DEVICE int sparse_row_of(SparseEntry entry) { return entry.position / SPARSE_ROW; }
EFL_DEVICE int sparse_position_of(SparseEntry entry) { return entry.position % SPARSE_ROW; }

// Entries [first, first + count).
struct SparseList {
    int first, count;
};

// Channels are read block by block. What a structure says of them where the layer does not.
struct SparseBlocks {
    int width, number;
};

constexpr int SPARSE_UNPACKERS = 128;
constexpr int SPARSE_LONGEST = 65535;  // weights of a list; of a sound structure none is longer

EFL_DEVICE int sparse_bits(float value) {
    int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

EFL_DEVICE float sparse_value(SparseEntry entry) {
    float value;
    memcpy(&value, &entry.bits, sizeof value);
    return value;
}

EFL_DEVICE int sparse_clamped(Size value, Size most) { return int(value < 0 ? 0 : value < most ? value : most); }

// Of each thread the sum of `value` before it, and in *total that of all. shared [2 * SPARSE_UNPACKERS]: after seven
// steps sums are in its second half, and what comes next, if it is this again, writes to the first.
EFL_DEVICE int sparse_before(int value, int* shared, int* total) {
    const int thread = int(threadIdx.x);
    int* from = shared;
    int* to = shared + SPARSE_UNPACKERS;
    from[thread] = value;
    barrier();
    for (int step = 1; step < SPARSE_UNPACKERS; step *= 2) {
        to[thread] = from[thread] + (thread >= step ? from[thread - step] : 0);
        int* const other = from;
        from = to, to = other;
        barrier();
    }
    static_assert(SPARSE_UNPACKERS == 128, "seven steps");
    *total = from[SPARSE_UNPACKERS - 1];
    return from[thread] - value;
}
