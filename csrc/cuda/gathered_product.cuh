// The product of two operands, sum over k of left(row, k) right(k, column), for one tile of rows and columns a block.
// What the operands are, and where a sum goes, is the caller's: this file only moves tiles of them through shared
// memory and multiplies, each thread TALL x WIDE sums in registers, while the next tiles are on their way into others.
//
// The caller's Source says where a value lies, in functions beside it. right(k, column) is a cell of a plane, 0 outside
// of it, so that a window's padding costs a comparison and no memory; a matrix has planes of one cell.
//
//     int row_of(source, m)             what row m adds to a position's `left`; OUTSIDE if there is no such row
//     Column column_of(source, n)       what column n adds to a position's `right`, h and w; h is OUTSIDE if there is
//     none Position position_of(source, k)   of a depth; called by few threads, one step ahead, so that it may divide
//     const float *left, *right;  int height, width;  of right's planes
#pragma once
#include "portable.cuh"

namespace gathered {

constexpr int OUTSIDE = -(1 << 29);  // two of them are still an int

struct alignas(16) Position {
    int left, right, h, w;
};

struct alignas(16) Column {
    int right, h, w;
};

// A row of shared memory has 4 floats more than it needs: threads that store 8 depths of 4 neighbours meet 32 banks.
template <int LINES>
constexpr int PITCH = LINES + 4;

// ROWS x COLUMNS sums of a block, DEPTH values deep in shared memory. A warp has 4 x 8 threads; a thread's rows and
// columns lie in fours, side by side with those of other threads of the warp, which reads 64 and 128 bytes in one go.
// Neighbouring threads have the same rows, and those two apart the same columns: then shared memory serves half a warp
// at a time, not a quarter. Products are fmaf's; tf32.cuh has tiles whose products are not, with fours of columns too.
template <int ROWS_, int COLUMNS_, int DEPTH_, int TALL_, int WIDE_>
struct Tile {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_, TALL = TALL_, WIDE = WIDE_;
    static constexpr int THREADS = ROWS * COLUMNS / (TALL * WIDE), WARPS_DOWN = ROWS / (4 * TALL);

    // What is put into shared memory for a value.
    EFL_DEVICE float kept(float value) { return value; }

    EFL_DEVICE int row(int i) {
        const int thread = int(threadIdx.x), warp = thread / 32 % WARPS_DOWN, lane = thread >> 1 & 3;
        return warp * 4 * TALL + i / 4 * 16 + lane * 4 + i % 4;
    }
    EFL_DEVICE int column(int i) {
        const int thread = int(threadIdx.x), warp = thread / 32 / WARPS_DOWN, lane = (thread & 1) + (thread >> 2 & 6);
        return warp * 8 * WIDE + i / 4 * 32 + lane * 4 + i % 4;
    }

    // sum += left right
    EFL_DEVICE void add_products(const float (&left)[DEPTH][PITCH<ROWS>], const float (&right)[DEPTH][PITCH<COLUMNS>],
                                 float (&sum)[TALL][WIDE]) {
        EFL_UNROLL
        for (int k = 0; k < DEPTH; ++k) {
            float rows[TALL], columns[WIDE];
            EFL_UNROLL
            for (int i = 0; i < TALL; i += 4) read_four(&left[k][row(i)], rows + i);
            EFL_UNROLL
            for (int j = 0; j < WIDE; j += 4) read_four(&right[k][column(j)], columns + j);
            EFL_UNROLL
            for (int i = 0; i < TALL; ++i) {
                EFL_UNROLL
                for (int j = 0; j < WIDE; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
            }
        }
    }
};

// ALONG: the right operand's neighbours in memory lie along the depth, as the left one's do, not along the columns.
template <class T, bool ALONG>
struct alignas(16) Shared {
    float left[2][T::DEPTH][PITCH<T::ROWS>], right[2][T::DEPTH][PITCH<T::COLUMNS>];
    Position positions[2][T::DEPTH];
    int rows[T::ROWS];
    Column columns[ALONG ? T::COLUMNS : 1];  // else a thread fetches for one column, and knows it
};

// Which values of a tile SPAN wide a thread fetches.
template <class T, int SPAN, bool ALONG>
struct Share {
    static constexpr int COUNT = SPAN * T::DEPTH / T::THREADS, LINES = ALONG ? SPAN * 8 / T::THREADS : 1;

    EFL_DEVICE int depth(int i) {
        return ALONG ? int(threadIdx.x) % 8 + i / LINES * 8 : int(threadIdx.x) / SPAN + i * (T::THREADS / SPAN);
    }
    EFL_DEVICE int line(int i) {
        return ALONG ? int(threadIdx.x) / 8 + i % LINES * (T::THREADS / 8) : int(threadIdx.x) % SPAN;
    }
};

// What a thread carries from one step to the next.
template <class T, bool ALONG>
struct Carried {
    using Left = Share<T, T::ROWS, true>;
    using Right = Share<T, T::COLUMNS, ALONG>;
    Column column;  // unless ALONG
    float left[Left::COUNT], right[Right::COUNT];
};

template <class T, bool ALONG, class Source>
EFL_DEVICE void begin(const Source& of, int first_row, int first_column, Carried<T, ALONG>& carried,
                      Shared<T, ALONG>& shared) {
    const int i = int(threadIdx.x);
    if (i < T::ROWS) shared.rows[i] = row_of(of, first_row + i);
    if (!ALONG) carried.column = column_of(of, first_column + Share<T, T::COLUMNS, false>::line(0));
    if (ALONG && i < T::COLUMNS) shared.columns[i] = column_of(of, first_column + i);
}

template <class T, bool ALONG, class Source>
EFL_DEVICE void fetch(const Source& of, int half, const Shared<T, ALONG>& shared, Carried<T, ALONG>& carried) {
    using Left = typename Carried<T, ALONG>::Left;
    using Right = typename Carried<T, ALONG>::Right;
    const Position* const positions = shared.positions[half];
    EFL_UNROLL
    for (int i = 0; i < Left::COUNT; ++i) {
        const int depth = positions[Left::depth(i)].left, row = shared.rows[Left::line(i)];
        carried.left[i] = (depth | row) < 0 ? 0.0f : of.left[depth + row];
    }
    EFL_UNROLL
    for (int i = 0; i < Right::COUNT; ++i) {
        const Position position = positions[Right::depth(i)];
        const Column column = ALONG ? shared.columns[Right::line(i)] : carried.column;
        const bool is_inside = unsigned(position.h + column.h) < unsigned(of.height) &&
                               unsigned(position.w + column.w) < unsigned(of.width);
        carried.right[i] = is_inside ? of.right[position.right + column.right] : 0.0f;
    }
}

template <class T, bool ALONG>
EFL_DEVICE void put(const Carried<T, ALONG>& carried, int half, Shared<T, ALONG>& shared) {
    using Left = typename Carried<T, ALONG>::Left;
    using Right = typename Carried<T, ALONG>::Right;
    EFL_UNROLL
    for (int i = 0; i < Left::COUNT; ++i) shared.left[half][Left::depth(i)][Left::line(i)] = T::kept(carried.left[i]);
    EFL_UNROLL
    for (int i = 0; i < Right::COUNT; ++i)
        shared.right[half][Right::depth(i)][Right::line(i)] = T::kept(carried.right[i]);
}

template <class T, bool ALONG, class Source>
EFL_DEVICE void note_positions(const Source& of, int step, int first, int last, Shared<T, ALONG>& shared) {
    const int i = int(threadIdx.x), k = first + step * T::DEPTH + i;
    if (i < T::DEPTH)
        shared.positions[step & 1][i] = k < last ? position_of(of, k) : Position{OUTSIDE, 0, OUTSIDE, OUTSIDE};
}

// sum[i][j] = the sum over k from `first` to before `last`, in order, of row first_row + T::row(i) and column
// first_column + T::column(j). All threads of a block call it with the same numbers.
template <class T, bool ALONG, class Source>
EFL_DEVICE void multiply(const Source& of, int first_row, int first_column, int first, int last,
                         Shared<T, ALONG>& shared, float (&sum)[T::TALL][T::WIDE]) {
    EFL_UNROLL
    for (int i = 0; i < T::TALL; ++i) {
        EFL_UNROLL
        for (int j = 0; j < T::WIDE; ++j) sum[i][j] = 0;
    }
    const int steps = (last - first + T::DEPTH - 1) / T::DEPTH;
    Carried<T, ALONG> carried;
    begin(of, first_row, first_column, carried, shared);
    for (int step = -2; step < steps; ++step) {
        const int next = step + 1;
        const bool is_fetched = next >= 0 && next < steps;
        if (is_fetched) fetch(of, next & 1, shared, carried);
        note_positions(of, next + 1, first, last, shared);  // over those of `step`, which are used up
        if (step >= 0) T::add_products(shared.left[step & 1], shared.right[step & 1], sum);
        if (is_fetched) put(carried, next & 1, shared);
        if (next < steps) barrier();
    }
}

}  // namespace gathered
