// Blocks of parameters: w[rows, cols, :] of w [rows, cols, inner], whose values lie compact elsewhere. No kernels.
#pragma once
#include "portable.cuh"

namespace parameters {

EFL_DEVICE Size size_of(const BlockOf& block) { return block.rows.count * block.columns.count * block.inner; }

// Where the compact value k lies in w.
EFL_DEVICE int position_of(const BlockOf& block, int k) {
    const unsigned inner = unsigned(block.inner), columns = unsigned(block.columns.count);
    if (!block.columns.list) {  // rows are whole
        const unsigned row = inner * columns;
        return block.rows.list ? block.rows.list[unsigned(k) / row] * int(row) + int(unsigned(k) % row) : k;
    }
    const unsigned line = unsigned(k) / inner, row = line / columns;
    const int column = block.columns.list[line % columns];
    return (id_at(block.rows, int(row)) * int(block.all_columns) + column) * int(inner) + int(unsigned(k) % inner);
}

}  // namespace parameters
