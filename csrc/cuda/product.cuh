// A tile of a product of two matrices, of chosen rows, columns and terms, which are gathered while they are loaded. No
// kernels: linear.cuh has them, and tf32.cuh, with tiles of its own. Here each sum takes its terms in their order, by
// fmaf, so that it has the same bits in either tile.
#pragma once
#include "portable.cuh"

namespace product {

constexpr int PRODUCT_THREADS = 128;  // 8 groups of rows by 16 columns of threads
constexpr int ROW_GROUPS = 8, COLUMN_THREADS = 16, TERMS_UNROLLED = 8;
constexpr int TILE_COLUMNS = 64;

// A tile of ROWS x 64 sums, of which a thread has TALL x WIDE: of neighbouring rows, and of columns 16 apart, so that a
// warp writes neighbours. In shared memory a term has LEFT_MORE and RIGHT_MORE floats more than it needs.
template <int ROWS_, int TERMS_, int LEFT_MORE, int RIGHT_MORE>
struct Tile {
    static constexpr int ROWS = ROWS_, TERMS = TERMS_;
    static constexpr int LEFT_PITCH = ROWS + LEFT_MORE, RIGHT_PITCH = TILE_COLUMNS + RIGHT_MORE;
    static constexpr int TALL = ROWS / ROW_GROUPS, WIDE = TILE_COLUMNS / COLUMN_THREADS;

    EFL_DEVICE int row(int m) { return int(threadIdx.x) / COLUMN_THREADS * TALL + m; }
    EFL_DEVICE int column(int n) { return int(threadIdx.x) % COLUMN_THREADS + n * COLUMN_THREADS; }

    // What is put into shared memory for a value.
    EFL_DEVICE float kept(float value) { return value; }

    // sum += left [TERMS][LEFT_PITCH] right [TERMS][RIGHT_PITCH]
    EFL_DEVICE void add_products(const float* left, const float* right, float (&sum)[TALL][WIDE]) {
        left += row(0);
        right += column(0);
        EFL_ROLLED
        for (int t = 0; t < TERMS; t += TERMS_UNROLLED) {
            EFL_UNROLL
            for (int u = 0; u < TERMS_UNROLLED; ++u, left += LEFT_PITCH, right += RIGHT_PITCH) {
                float rows[TALL], columns[WIDE];
                read_rows(left, rows);
                EFL_UNROLL
                for (int n = 0; n < WIDE; ++n) columns[n] = right[n * COLUMN_THREADS];
                EFL_UNROLL
                for (int m = 0; m < TALL; ++m) {
                    EFL_UNROLL
                    for (int n = 0; n < WIDE; ++n) sum[m][n] = fmaf(rows[m], columns[n], sum[m][n]);
                }
            }
        }
    }

private:
    // A thread's rows of one term, four at once where the pitch keeps them aligned.
    EFL_DEVICE void read_rows(const float* from, float (&rows)[TALL]) {
        if constexpr (LEFT_PITCH % 4 == 0) {
            EFL_UNROLL
            for (int m = 0; m < TALL; m += 4) read_four(from + m, rows + m);
        } else {
            EFL_UNROLL
            for (int m = 0; m < TALL; ++m) rows[m] = from[m];
        }
    }
};

// For products of many rows, and of few: where there are few, blocks wait for memory, so that more terms are on their
// way at once. Pitches are such that few or no threads of a warp meet in a bank.
using WideTile = Tile<64, 16, 4, 2>;
using NarrowTile = Tile<16, 32, 1, 1>;

// Two of each, [terms][pitch]: one is read while the next is filled.
template <class Tile>
struct ProductMemory {
    alignas(16) float left[2][Tile::TERMS * Tile::LEFT_PITCH];
    alignas(16) float right[2][Tile::TERMS * Tile::RIGHT_PITCH];
};

// ---- matrices: a thread fetches its values of a tile into registers, zeros beyond the ends, and stores them later --

// [row, term]: neighbours in memory are terms. A tile of SPAN rows from `first` on, below `end`.
template <int SPAN, int TERMS>
struct AlongTerms {
    static constexpr int EACH = SPAN * TERMS / PRODUCT_THREADS, APART = PRODUCT_THREADS / TERMS;
    const float* values;
    Ids terms;
    int pitch, first, end;
    float next[EACH];
};

template <int SPAN, int TERMS>
EFL_DEVICE void fetch(AlongTerms<SPAN, TERMS>& from, int term, int last) {
    using Matrix = AlongTerms<SPAN, TERMS>;
    const int t = term + int(threadIdx.x) % TERMS, row = from.first + int(threadIdx.x) / TERMS;
    const float* const column = from.values + (t < last ? id_at(from.terms, t) : 0);
    EFL_UNROLL
    for (int j = 0; j < Matrix::EACH; ++j) {
        const int at = row + j * Matrix::APART;
        from.next[j] = t < last && at < from.end ? column[at * from.pitch] : 0.0f;
    }
}

template <class Tile, int SPAN, int TERMS>
EFL_DEVICE void store(const AlongTerms<SPAN, TERMS>& from, float* tile, int pitch) {
    using Matrix = AlongTerms<SPAN, TERMS>;
    float* const to = tile + int(threadIdx.x) % TERMS * pitch + int(threadIdx.x) / TERMS;
    EFL_UNROLL
    for (int j = 0; j < Matrix::EACH; ++j) to[j * Matrix::APART] = Tile::kept(from.next[j]);
}

// [term, column]: neighbours in memory are columns, of which each thread has one, or none: column -1.
template <int SPAN, int TERMS>
struct AcrossTerms {
    static constexpr int EACH = SPAN * TERMS / PRODUCT_THREADS, APART = PRODUCT_THREADS / SPAN;
    const float* values;
    Ids terms;
    int pitch, column;
    float next[EACH];
};

template <int SPAN, int TERMS>
EFL_DEVICE AcrossTerms<SPAN, TERMS> across(const float* values, const Ids& terms, Size pitch, const Ids& columns,
                                           int first) {
    const int column = first + int(threadIdx.x) % SPAN;
    return {values, terms, int(pitch), column < columns.count ? id_at(columns, column) : -1, {}};
}

template <int SPAN, int TERMS>
EFL_DEVICE void fetch(AcrossTerms<SPAN, TERMS>& from, int term, int last) {
    using Matrix = AcrossTerms<SPAN, TERMS>;
    EFL_UNROLL
    for (int j = 0; j < Matrix::EACH; ++j) {
        const int t = term + int(threadIdx.x) / SPAN + j * Matrix::APART;
        const bool is_inside = t < last && from.column >= 0;
        from.next[j] = is_inside ? from.values[id_at(from.terms, t) * from.pitch + from.column] : 0.0f;
    }
}

template <class Tile, int SPAN, int TERMS>
EFL_DEVICE void store(const AcrossTerms<SPAN, TERMS>& from, float* tile, int pitch) {
    using Matrix = AcrossTerms<SPAN, TERMS>;
    float* const to = tile + int(threadIdx.x) / SPAN * pitch + int(threadIdx.x) % SPAN;
    EFL_UNROLL
    for (int j = 0; j < Matrix::EACH; ++j) to[j * Matrix::APART * pitch] = Tile::kept(from.next[j]);
}

// ---- products ------------------------------------------------------------------------------------------------------

// A thread's.
template <class Tile>
struct Sums {
    float of[Tile::TALL][Tile::WIDE];
};

// The sums over terms [first, last) of left * right, which are AlongTerms or AcrossTerms. While a tile is summed the
// next is on its way.
template <class Tile, class Left, class Right>
EFL_DEVICE Sums<Tile> summed(ProductMemory<Tile>& memory, Left& left, Right& right, int first, int last) {
    Sums<Tile> sums = {};
    EFL_ROLLED
    for (int term = first, turn = 0;; term += Tile::TERMS, turn ^= 1) {
        if (term < last) {
            fetch(left, term, last);
            fetch(right, term, last);
        }
        if (term > first) Tile::add_products(memory.left[turn ^ 1], memory.right[turn ^ 1], sums.of);
        if (term >= last) return sums;
        store<Tile>(left, memory.left[turn], Tile::LEFT_PITCH);
        store<Tile>(right, memory.right[turn], Tile::RIGHT_PITCH);
        barrier();  // and what is stored next has been read
    }
}

}  // namespace product
