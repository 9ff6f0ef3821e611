// Max and average pools; those of adaptive windows are in pool_adaptive.cuh. Contracts: edgefl/kernels/table.py.
//
// Forwards a thread has an output and reads its window; backwards it has an input and reads the windows that it is in,
// so that nothing is added to by two threads.
#pragma once
#include "divisor.cuh"
#include "pool_adaptive.cuh"

namespace pool {

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

// A result's position, and its window's cells.
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

// use(cell, value) of a window's cells inside the plane. Those of two rows and four columns are read at once.
template <class Use>
EFL_DEVICE void each_cell(const PoolArgs& a, const Result& at, const Use& use) {
    constexpr int COLUMNS = 4, CELLS = 2 * COLUMNS;
    const int width = int(a.horizontal.size), lanes = int(a.lanes), across = int(a.horizontal.kernel);
    const float* const x = a.x + at.plane * int(a.vertical.size) * width * lanes + at.lane;
    EFL_ROLLED
    for (int top = at.rows.begin; top < at.rows.end; top += 2) EFL_ROLLED
    for (int left = at.columns.begin; left < at.columns.end; left += COLUMNS) {
        const int rows = at.rows.end - top, columns = at.columns.end - left;
        float values[CELLS];
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i)
            if (i / COLUMNS < rows && i % COLUMNS < columns)
                values[i] = x[((top + i / COLUMNS) * width + left + i % COLUMNS) * lanes];
        const int cell = (top - at.rows.first) * across + left - at.columns.first;
        EFL_UNROLL
        for (int i = 0; i < CELLS; ++i)
            if (i / COLUMNS < rows && i % COLUMNS < columns) use(cell + i / COLUMNS * across + i % COLUMNS, values[i]);
    }
}

// The largest so far, and its cell: of equals the first of the window, in whatever order they come; a NaN wins.
struct Largest {
    int cell;
    float value;
};

EFL_DEVICE bool wins(int cell, float value, const Largest& best) {
    if (best.cell < 0 || value > best.value) return true;
    if (value != value) return best.value == best.value || cell > best.cell;
    return value == best.value && cell < best.cell;
}

EFL_KERNEL(maxpool_forward, 256) {
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        Largest best = {-1, 0};
        each_cell(a, result_of(a, int(i)), [&](int cell, float value) {
            if (wins(cell, value, best)) best = {cell, value};
        });
        a.y[i] = best.value;
        if (a.codes) a.codes[i] = Byte(best.cell);
    }
}

EFL_KERNEL(avgpool_forward, 256) {
    const bool with_padding = a.with_padding != 0;
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        const Result at = result_of(a, int(i));
        float sum = 0;
        each_cell(a, at, [&](int, float value) { sum += value; });
        const int rows = counted(a.vertical, at.rows, with_padding);
        const int columns = counted(a.horizontal, at.columns, with_padding);
        a.y[i] = sum / (float(rows) * float(columns));
    }
}

// ---- back ---------------------------------------------------------------------------------------------------------

// An input's position, and the windows that it is in.
struct Source {
    int position, results;  // of the plane's first result
    Range rows, columns;
};

EFL_DEVICE Source source_of(const PoolBackArgs& a, int number) {
    const int lanes = int(a.lanes);
    const Split lane = split(number, lanes, a.by_lanes);
    const Cell cell = cell_of(a.chosen, lane.whole);
    const int results = int(a.vertical.result * a.horizontal.result);
    return {cell.position * lanes + lane.rest, cell.plane * results * lanes + lane.rest,
            windows_of(a.vertical, cell.row), windows_of(a.horizontal, cell.column)};
}

// The sum of share(position of the result, row, column) over the windows of an input.
template <class Share>
EFL_DEVICE float over_windows(const PoolBackArgs& a, const Source& at, const Share& share) {
    const int columns = int(a.horizontal.result), lanes = int(a.lanes);
    float sum = 0;
    EFL_ROLLED
    for (int row = at.rows.begin; row < at.rows.end; ++row) EFL_ROLLED
    for (int column = at.columns.begin; column < at.columns.end; ++column)
        sum += share(at.results + (row * columns + column) * lanes, row, column);
    return sum;
}

EFL_KERNEL(maxpool_backward, 256) {
    const int down = int(a.vertical.stride), across = int(a.horizontal.stride), width = int(a.horizontal.kernel);
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count * a.lanes; i += threads_of_grid()) {
        const Source at = source_of(a, int(i));
        a.dx[at.position] = over_windows(a, at, [&](int position, int row, int column) {
            const int cell = (at.rows.first - row * down) * width + at.columns.first - column * across;
            return int(a.codes[position]) == cell ? a.dy[position] : 0;
        });
    }
}

EFL_KERNEL(avgpool_backward, 256) {
    const bool with_padding = a.with_padding != 0;
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Source at = source_of(a, int(i));
        a.dx[at.position] = over_windows(a, at, [&](int position, int row, int column) {
            const int rows = counted(a.vertical, cells_of(a.vertical, row), with_padding);
            const int columns = counted(a.horizontal, cells_of(a.horizontal, column), with_padding);
            return a.dy[position] / (float(rows) * float(columns));
        });
    }
}

}  // namespace pool
