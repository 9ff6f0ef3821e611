// RNN, GRU and LSTM over all steps of sequences: in one launch (recurrent_through.cuh) or with a launch a step
// (recurrent_step.cuh); here, sequences turned into steps and back. Contracts: edgefl/kernels/table.py.
#pragma once
#include "recurrent_step.cuh"
#include "recurrent_through.cuh"
#include "transpose.cuh"

namespace recurrent {

// [batch, channels, steps] to [steps, batch, channels]
EFL_KERNEL(to_steps, TILE_THREADS) {
    EFL_SHARED Tile shared;
    const int batch = int(a.batch), channels = int(a.channels), steps = int(a.steps);
    exchange_tile(
        channels, steps, shared, [&](int b, int c, int t) { return a.source[(b * channels + c) * steps + t]; },
        [&](int b, int c, int t, float value) { a.to[(t * batch + b) * channels + c] = value; });
}

EFL_KERNEL(from_steps, TILE_THREADS) {
    EFL_SHARED Tile shared;
    const int batch = int(a.batch), channels = int(a.channels), steps = int(a.steps), passed = int(a.passed);
    transpose_tile(steps, channels, a.to, shared,
                   [&](int b, int t, int c) { return a.source[((passed + t) * batch + b) * channels + c]; });
}

}  // namespace recurrent
