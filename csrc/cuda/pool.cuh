// Max and average pools; those of adaptive windows are in pool_adaptive.cuh. Contracts: csrc/edgefl.h.
//
// Forwards a thread has an output and reads its window; backwards it has an input and reads the windows that it is in, so
// that nothing is added to by two threads.
#pragma once
#include "divisor.cuh"
#include "pool_adaptive.cuh"

namespace pool {

struct Axis {
    Size size, result, kernel, stride, padding;
    Divisor by_stride;
};

// The cells of a window inside the plane, `first` being where it begins, or the windows of a cell.
struct Range {
    int first, begin, end;
};

EFL_DEVICE Range cells_of(const Axis& axis, int window) {
    const int first = window * int(axis.stride) - int(axis.padding);
    return {first, larger(first, 0), smaller(first + int(axis.kernel), int(axis.size))};
}

EFL_DEVICE Range windows_of(const Axis& axis, int cell) {
    const int padded = cell + int(axis.padding), before = padded - int(axis.kernel);
    const int begin = before < 0 ? 0 : divided(before, axis.by_stride) + 1;
    return {padded, begin, smaller(divided(padded, axis.by_stride) + 1, int(axis.result))};
}

// What a mean divides by along an axis: the window's cells, those past the padding never, those in it if they count.
EFL_DEVICE int counted(const Axis& axis, const Range& cells, bool with_padding) {
    if (!with_padding) return cells.end - cells.begin;
    return smaller(int(axis.kernel), int(axis.size + axis.padding) - cells.first);
}

struct PoolArgs {
    const float* x;
    float* y;
    Byte* codes;  // or null
    Axis vertical, horizontal;
    Size lanes, count;  // count: results
    Divisor by_lanes, by_columns, by_rows;
    Size with_padding;
};

// A result's place, and its window's cells.
struct Result {
    int plane, lane;
    Range rows, columns;
};

EFL_DEVICE Result result_of(const PoolArgs& a, int number) {
    const Split cell = split(number, int(a.lanes), a.by_lanes);
    const Split line = split(cell.whole, int(a.horizontal.result), a.by_columns);
    const Split row = split(line.whole, int(a.vertical.result), a.by_rows);
    return {row.whole, cell.rest, cells_of(a.vertical, row.rest), cells_of(a.horizontal, line.rest)};
}

EFL_DEVICE bool is_whole(const Range& range, int cells) { return range.end - range.begin == cells; }

// use(cell, value) of a window's cells inside the plane, row by row; those of a whole SIDE x SIDE one are read at once.
template <int SIDE, class Use>
EFL_DEVICE void each_cell(const PoolArgs& a, const Result& at, const Use& use) {
    const int width = int(a.horizontal.size), lanes = int(a.lanes), across = int(a.horizontal.kernel);
    const float* const x = a.x + at.plane * int(a.vertical.size) * width * lanes + at.lane;
    if (SIDE > 0 && is_whole(at.rows, SIDE) && is_whole(at.columns, SIDE)) {
        constexpr int CELLS = SIDE > 0 ? SIDE * SIDE : 1, COLUMNS = SIDE > 0 ? SIDE : 1;
        float values[CELLS];
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i)
            values[i] = x[((at.rows.first + i / COLUMNS) * width + at.columns.first + i % COLUMNS) * lanes];
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i) use(i, values[i]);
        return;
    }
    for (int h = at.rows.begin; h < at.rows.end; ++h)
        for (int w = at.columns.begin; w < at.columns.end; ++w)
            use((h - at.rows.first) * across + w - at.columns.first, x[(h * width + w) * lanes]);
}

template <int SIDE>
EFL_DEVICE void maxpool_results(const PoolArgs& a) {
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        int best = -1;
        float found = 0;
        each_cell<SIDE>(a, result_of(a, int(i)), [&](int cell, float value) {
            if (best >= 0 && value <= found) return;            // the first of equals stays
            if (best >= 0 && found != found && value == value) return;  // and a NaN, unless for another
            best = cell;
            found = value;
        });
        a.y[i] = found;
        if (a.codes) a.codes[i] = Byte(best);
    }
}

EFL_DEVICE int side_of(const PoolArgs& a) { return a.vertical.kernel == a.horizontal.kernel ? int(a.vertical.kernel) : 0; }

EFL_KERNEL(maxpool_forward, 256, PoolArgs) {
    const int side = side_of(a);
    if (side == 2) maxpool_results<2>(a);
    else if (side == 3) maxpool_results<3>(a);
    else maxpool_results<0>(a);
}

template <int SIDE>
EFL_DEVICE void avgpool_results(const PoolArgs& a) {
    const bool with_padding = a.with_padding != 0;
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        const Result at = result_of(a, int(i));
        float sum = 0;
        each_cell<SIDE>(a, at, [&](int, float value) { sum += value; });
        const int rows = counted(a.vertical, at.rows, with_padding);
        const int columns = counted(a.horizontal, at.columns, with_padding);
        a.y[i] = sum / (float(rows) * float(columns));
    }
}

EFL_KERNEL(avgpool_forward, 256, PoolArgs) {
    const int side = side_of(a);
    if (side == 2) avgpool_results<2>(a);
    else if (side == 3) avgpool_results<3>(a);
    else avgpool_results<0>(a);
}

// ---- back ------------------------------------------------------------------------------------------------------------

struct PoolBackArgs {
    const float* dy;
    const Byte* codes;
    float* dx;
    Axis vertical, horizontal;
    Chosen chosen;
    Size lanes;
    Divisor by_lanes;
    Size with_padding;
};

// An input's place, and the windows that it is in.
struct Source {
    int place, results;  // of the plane's first result
    Range rows, columns;
};

EFL_DEVICE Source source_of(const PoolBackArgs& a, int number) {
    const int lanes = int(a.lanes);
    const Split lane = split(number, lanes, a.by_lanes);
    const Cell cell = cell_of(a.chosen, lane.whole);
    const int results = int(a.vertical.result * a.horizontal.result);
    return {cell.place * lanes + lane.rest, cell.plane * results * lanes + lane.rest,
            windows_of(a.vertical, cell.row), windows_of(a.horizontal, cell.column)};
}

// The sum of share(place of the result, row, column) over the windows of an input.
template <class Share>
EFL_DEVICE float over_windows(const PoolBackArgs& a, const Source& at, const Share& share) {
    const int columns = int(a.horizontal.result), lanes = int(a.lanes);
    float sum = 0;
    for (int row = at.rows.begin; row < at.rows.end; ++row)
        for (int column = at.columns.begin; column < at.columns.end; ++column)
            sum += share(at.results + (row * columns + column) * lanes, row, column);
    return sum;
}

EFL_KERNEL(maxpool_backward, 256, PoolBackArgs) {
    const int down = int(a.vertical.stride), across = int(a.horizontal.stride), width = int(a.horizontal.kernel);
    for (Size i = thread_of_grid(); i < a.chosen.count * a.lanes; i += threads_of_grid()) {
        const Source at = source_of(a, int(i));
        a.dx[at.place] = over_windows(a, at, [&](int place, int row, int column) {
            const int cell = (at.rows.first - row * down) * width + at.columns.first - column * across;
            return int(a.codes[place]) == cell ? a.dy[place] : 0;
        });
    }
}

EFL_KERNEL(avgpool_backward, 256, PoolBackArgs) {
    const bool with_padding = a.with_padding != 0;
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Source at = source_of(a, int(i));
        a.dx[at.place] = over_windows(a, at, [&](int place, int row, int column) {
            const int rows = counted(a.vertical, cells_of(a.vertical, row), with_padding);
            const int columns = counted(a.horizontal, cells_of(a.horizontal, column), with_padding);
            return a.dy[place] / (float(rows) * float(columns));
        });
    }
}

}  // namespace pool
