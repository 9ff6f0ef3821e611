// Averages of windows that cover a plane, as many as are asked for, the longer ones by a cell; and of whole planes.
// Contracts: csrc/edgefl.h.
#pragma once
#include "divisor.cuh"
#include "runs.cuh"

namespace pool {

// Cells of the planes [b, c] with c among channels, each `rows` x `columns`.
struct Chosen {
    Ids channels;
    Size all_channels, rows, columns, count;
    Divisor by_channels, by_rows, by_columns;
};

struct Cell {
    int place, plane, row, column;
};

EFL_DEVICE Cell cell_of(const Chosen& chosen, int number) {
    const Split line = split(number, int(chosen.columns), chosen.by_columns);
    const Split row = split(line.whole, int(chosen.rows), chosen.by_rows);
    const Split image = split(row.whole, int(chosen.channels.count), chosen.by_channels);
    const int plane = image.whole * int(chosen.all_channels) + id_at(chosen.channels, image.rest);
    return {(plane * int(chosen.rows) + row.rest) * int(chosen.columns) + line.rest, plane, row.rest, line.rest};
}

// Part i of `parts` of `size` cells, and the parts that a cell is in.
struct Parts {
    Size parts, size;
};

EFL_DEVICE int begin_of(const Parts& all, int part) { return int(part * all.size / all.parts); }
EFL_DEVICE int end_of(const Parts& all, int part) { return int(((part + 1) * all.size + all.parts - 1) / all.parts); }
EFL_DEVICE int first_part(const Parts& all, int cell) { return int(cell * all.parts / all.size); }
EFL_DEVICE int last_part(const Parts& all, int cell) { return int(((cell + 1) * all.parts - 1) / all.size); }
EFL_DEVICE int length_of(const Parts& all, int part) { return end_of(all, part) - begin_of(all, part); }

struct AdaptiveArgs {
    const float* from;   // x, or dy
    float* to;           // y, or dx
    Chosen chosen;       // cells of `to`
    Size rows, columns;  // of `from`
};

EFL_KERNEL(adaptive_avgpool_forward, 256, AdaptiveArgs) {
    const Parts vertical = {a.chosen.rows, a.rows}, horizontal = {a.chosen.columns, a.columns};
    const int width = int(a.columns);
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Cell at = cell_of(a.chosen, int(i));
        const int top = begin_of(vertical, at.row), rows = length_of(vertical, at.row);
        const int columns = length_of(horizontal, at.column);
        const float* const x = a.from + (at.plane * int(a.rows) + top) * width + begin_of(horizontal, at.column);
        float sum = 0;
        EFL_ROLLED
        for (int h = 0; h < rows; ++h)
            for (int w = 0; w < columns; ++w) sum += x[h * width + w];
        a.to[at.place] = sum / (float(rows) * float(columns));
    }
}

EFL_KERNEL(adaptive_avgpool_backward, 256, AdaptiveArgs) {
    const Parts vertical = {a.rows, a.chosen.rows}, horizontal = {a.columns, a.chosen.columns};
    const int columns = int(a.columns);
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Cell at = cell_of(a.chosen, int(i));
        const int first = first_part(horizontal, at.column), last = last_part(horizontal, at.column);
        const int end = last_part(vertical, at.row);
        const float* const dy = a.from + at.plane * int(a.rows) * columns;
        float sum = 0;
        EFL_ROLLED
        for (int row = first_part(vertical, at.row); row <= end; ++row) {
            const float down = float(length_of(vertical, row));
            EFL_ROLLED
            for (int column = first; column <= last; ++column)
                sum += dy[row * columns + column] / (down * float(length_of(horizontal, column)));
        }
        a.to[at.place] = sum;
    }
}

// ---- whole planes ----------------------------------------------------------------------------------------------------

struct MeansArgs {
    const float* x;
    float* y;
    runs::Runs planes;
};

EFL_KERNEL(plane_means, 256, MeansArgs) {
    using namespace runs;
    EFL_SHARED Pair shared[RUN_THREADS];
    const Part part = part_of(a.planes);
    const int inner = int(a.planes.inner);
    const Address address = address_of(a.planes, part, inner);
    float sum = 0;
    each_place<4>(
        walk_of(a.planes, part, inner), [&](int row, int column) { return a.x[place_at(address, row, column)]; },
        [&](int, int, float value) { sum += value; });
    const Pair total = team_sum(a.planes, part, {sum, 0}, shared);
    if (part.exists && part.member == 0) a.y[part.run] = float(total.first / inner);
}

}  // namespace pool
