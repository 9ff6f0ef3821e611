// Averages of windows that cover a plane, as many as are asked for, the longer ones by a cell; and of whole planes.
// Contracts: edgefl/kernels/table.py.
#pragma once
#include "divisor.cuh"
#include "runs.cuh"

namespace pool {

struct Cell {
    int position, plane, row, column;
};

EFL_DEVICE Cell cell_of(const Chosen& chosen, int number) {
    const Split line = split(number, int(chosen.columns), chosen.by_columns);
    const Split row = split(line.whole, int(chosen.rows), chosen.by_rows);
    const Split image = split(row.whole, int(chosen.channels.count), chosen.by_channels);
    const int plane = image.whole * int(chosen.all_channels) + id_at(chosen.channels, image.rest);
    return {(plane * int(chosen.rows) + row.rest) * int(chosen.columns) + line.rest, plane, row.rest, line.rest};
}

// The cells of part i out of `parts` of `size`, or the parts that a cell is in.
struct Stretch {
    int begin, end;
};

EFL_DEVICE Stretch cells_of_part(Size part, Size parts, Size size) {
    return {int(part * size / parts), int(((part + 1) * size + parts - 1) / parts)};
}

EFL_DEVICE Stretch parts_of_cell(Size cell, Size parts, Size size) {
    return {int(cell * parts / size), int(((cell + 1) * parts + size - 1) / size)};
}

EFL_KERNEL(adaptive_avgpool_forward, 256) {
    const int width = int(a.columns);
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Cell at = cell_of(a.chosen, int(i));
        const Stretch rows = cells_of_part(at.row, a.chosen.rows, a.rows);
        const Stretch columns = cells_of_part(at.column, a.chosen.columns, a.columns);
        const float* const x = a.source + at.plane * int(a.rows) * width;
        float sum = 0;
        EFL_ROLLED
        for (int h = rows.begin; h < rows.end; ++h)
            for (int w = columns.begin; w < columns.end; ++w) sum += x[h * width + w];
        a.to[at.position] = sum / (float(rows.end - rows.begin) * float(columns.end - columns.begin));
    }
}

EFL_KERNEL(adaptive_avgpool_backward, 256) {
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.chosen.count; i += threads_of_grid()) {
        const Cell at = cell_of(a.chosen, int(i));
        const Stretch rows = parts_of_cell(at.row, a.rows, a.chosen.rows);
        const Stretch columns = parts_of_cell(at.column, a.columns, a.chosen.columns);
        const float* const dy = a.source + at.plane * int(a.rows * a.columns);
        float sum = 0;
        EFL_ROLLED
        for (int row = rows.begin; row < rows.end; ++row) {
            const Stretch down = cells_of_part(row, a.rows, a.chosen.rows);
            EFL_ROLLED
            for (int column = columns.begin; column < columns.end; ++column) {
                const Stretch across = cells_of_part(column, a.columns, a.chosen.columns);
                const float cells = float(down.end - down.begin) * float(across.end - across.begin);
                sum += dy[row * int(a.columns) + column] / cells;
            }
        }
        a.to[at.position] = sum;
    }
}

// ---- whole planes -------------------------------------------------------------------------------------------------

EFL_KERNEL(plane_means, 256) {
    using namespace runs;
    EFL_SHARED Pair shared[RUN_THREADS];
    const Part part = part_of(a.planes);
    const int inner = int(a.planes.inner);
    const Address address = address_of(a.planes, part, inner);
    float sum = 0;
    each_position<4>(
        walk_of(a.planes, part, inner), [&](int row, int column) { return a.x[position_at(address, row, column)]; },
        [&](int, int, float value) { sum += value; });
    const Pair total = team_sum(a.planes, part, {sum, 0}, shared);
    if (part.exists && part.member == 0) a.y[part.run] = float(total.first / inner);
}

}  // namespace pool
