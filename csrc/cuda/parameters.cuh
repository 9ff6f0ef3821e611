// Gather and scatter of blocks of parameters. Contracts: edgefl/kernels/table.py.
#pragma once
#include "block.cuh"

namespace parameters {

// Words of 4 bytes, of any type: moved as they are.
using Word = unsigned;

EFL_KERNEL(take_axes, 256) {
    EFL_ROLLED
    for (Size k = thread_of_grid(); k < size_of(a.block); k += threads_of_grid())
        a.values[k] = a.w[position_of(a.block, int(k))];
}

EFL_KERNEL(put_axes, 256) {
    EFL_ROLLED
    for (Size k = thread_of_grid(); k < size_of(a.block); k += threads_of_grid())
        a.w[position_of(a.block, int(k))] = a.values[k];
}

// Permutes too: the ids may be in any order.
EFL_KERNEL(take_flat, 256) {
    EFL_ROLLED
    for (Size k = thread_of_grid(); k < a.count; k += threads_of_grid()) a.values[k] = a.w[a.ids[k]];
}

EFL_KERNEL(put_flat, 256) {
    EFL_ROLLED
    for (Size k = thread_of_grid(); k < a.count; k += threads_of_grid()) a.w[a.ids[k]] = a.values[k];
}

}  // namespace parameters
