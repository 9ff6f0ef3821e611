// Gradients of a masked layer's kept weights: one dot product for each, over positions and images. A block of threads
// takes some weights of a cell (rows by channels) and a share of the tiles; its threads keep a sum for each weight and
// position, which are added up at the end. Shares, where there are several, are added by a launch of their own.
#pragma once
#include "reduce.cuh"
#include "sparse_positions.cuh"
#include "sparse_products.cuh"
#include "sparse_tile.cuh"

constexpr int SPARSE_SLOTS = 24, SPARSE_SLOTS_AT_ONCE = 8;  // of a thread

template <int QUADS>
EFL_DEVICE void sparse_grad(const SparseImages& dy, const SparseSpot& spot, int row, int batch, float4 (&sent)[QUADS]) {
    const int cell = (row * int(dy.height) + spot.down) * int(dy.width) + spot.along;
    const float* const at = dy.data + cell * int(dy.lanes);
    EFL_UNROLL
    for (int k = 0; k < 4 * QUADS; ++k) {
        const int image = spot.image + k;
        sparse_part(sent[k / 4], k % 4) = image < batch ? at[sparse_image(dy, image)] : 0.0f;
    }
}

// Adds the products of one tile to the sums of a thread's slots, whose row changes seldom.
template <int QUADS>
EFL_DEVICE void sparse_correlate(const SparseGradientArgs& a, const SparseSpot& spot, int first, int count,
                                 int first_row, const float4* positions, float (&sums)[SPARSE_SLOTS]) {
    float4 sent[QUADS];
    int row = -1;
    EFL_UNROLL
    for (int j = 0; j < SPARSE_SLOTS; ++j) {
        if (j >= count) continue;
        const SparseEntry entry = a.entries[first + j];
        if (sparse_row_of(entry) != row) {
            row = sparse_row_of(entry);
            sparse_grad<QUADS>(a.dy, spot, first_row + row, int(a.layer.batch), sent);
        }
        const float4* const from = positions + spot.position + sparse_position_of(entry);
        EFL_UNROLL
        for (int quad = 0; quad < QUADS; ++quad) {
            const float4 x = from[quad * (SPARSE_POSITIONS / QUADS)];
            sums[j] = fmaf(sent[quad].x, x.x, sums[j]), sums[j] = fmaf(sent[quad].y, x.y, sums[j]);
            sums[j] = fmaf(sent[quad].z, x.z, sums[j]), sums[j] = fmaf(sent[quad].w, x.w, sums[j]);
        }
    }
}

// Adds up what the threads of each entry have.
EFL_DEVICE void sparse_collect(const float (&sums)[SPARSE_SLOTS], int lanes, const SparseEntry* entries, int count,
                               float* to, float* shared) {
    const int lane = int(threadIdx.x) % lanes, taker = int(threadIdx.x) / lanes, takers = SPARSE_THREADS / lanes;
    EFL_UNROLL
    for (int from = 0; from < SPARSE_SLOTS; from += SPARSE_SLOTS_AT_ONCE) {
        barrier();
        EFL_UNROLL
        for (int j = 0; j < SPARSE_SLOTS_AT_ONCE; ++j)
            shared[(taker * SPARSE_SLOTS_AT_ONCE + j) * (lanes + 1) + lane] = sums[from + j];
        barrier();
        for (int i = int(threadIdx.x); i < takers * SPARSE_SLOTS_AT_ONCE; i += SPARSE_THREADS) {
            const int entry = i / SPARSE_SLOTS_AT_ONCE * SPARSE_SLOTS + from + i % SPARSE_SLOTS_AT_ONCE;
            float sum = 0;
            EFL_ROLLED
            for (int k = 0; k < lanes; ++k) sum += shared[i * (lanes + 1) + k];
            if (entry < count) to[entries[entry].bits] = sum;
        }
    }
}

template <int QUADS>
EFL_DEVICE void sparse_gradient(const SparseGradientArgs& a, float4* positions) {
    const SparseList cell = a.cells[blockIdx.x];
    const int lanes = int(a.tiling.lanes), slots = SPARSE_THREADS / lanes * SPARSE_SLOTS;
    const int mine = int(threadIdx.x) / lanes * SPARSE_SLOTS, block = int(blockIdx.x % (a.layer.blocks * a.layer.cuts));
    const int first_row = int(blockIdx.x / (a.layer.blocks * a.layer.cuts)) * SPARSE_PANEL;
    const int tiles = int(a.tiling.tiles_down * a.tiling.tiles_along * a.tiling.tiles_images);
    for (int first = int(blockIdx.y) * slots; first < cell.count; first += int(gridDim.y) * slots) {
        const int count = smaller(cell.count - first - mine, SPARSE_SLOTS);
        float sums[SPARSE_SLOTS] = {};
        EFL_ROLLED
        for (int tile = int(blockIdx.z); tile < tiles; tile += int(gridDim.z)) {
            const SparseSpot spot = sparse_spot<QUADS>(a.layer, a.tiling, tile);
            barrier();
            sparse_load<QUADS>(a.x, a.layer, a.tiling, tile, block, positions);
            barrier();
            if (spot.is_inside)
                sparse_correlate<QUADS>(a, spot, cell.first + first + mine, count, first_row, positions, sums);
        }
        float* const to = a.gradients + blockIdx.z * a.count;
        sparse_collect(sums, lanes, a.entries + cell.first + first, cell.count - first, to, &positions[0].x);
    }
}

// Registers for two blocks on a processor: ptxas takes fewer of itself on some, and spills.
EFL_KERNEL(sparse_gradient_large, EFL_RESIDENT(256, 2)) {
    EFL_SHARED float4 positions[SPARSE_POSITIONS];
    sparse_gradient<2>(a, positions);
}

EFL_KERNEL(sparse_gradient_small, EFL_RESIDENT(256, 2)) {
    EFL_SHARED float4 positions[SPARSE_POSITIONS];
    sparse_gradient<1>(a, positions);
}

// Windows that are too large for a tile.
EFL_KERNEL(sparse_gradient_direct, 256) {
    EFL_SHARED float shared[256];
    const SparseList cell = a.cells[blockIdx.x];
    const int blocks = int(a.layer.blocks * a.layer.cuts), plane = int(a.dy.height * a.dy.width);
    const int block = int(blockIdx.x) % blocks, first_row = int(blockIdx.x) / blocks * SPARSE_PANEL;
    for (int slot = cell.first + int(blockIdx.y); slot < cell.first + cell.count; slot += int(gridDim.y)) {
        const SparseEntry entry = a.entries[slot];
        float sum = 0;
        for (int i = int(threadIdx.x); i < a.layer.batch * plane; i += 256) {
            const int image = i / plane, down = i % plane / int(a.dy.width), along = i % int(a.dy.width);
            const int at = ((first_row + sparse_row_of(entry)) * plane + i % plane) * int(a.dy.lanes);
            const float x = sparse_read(a.x, a.layer, block, sparse_position_of(entry), image, down, along);
            sum = fmaf(a.dy.data[sparse_image(a.dy, image) + at], x, sum);
        }
        const float total = block_sum<256>(sum, shared);
        if (threadIdx.x == 0) a.gradients[entry.bits] = total;
    }
}

// Of gradients, or of results [batch, channels, inner] with their bias.
EFL_KERNEL(sparse_add_shares, 256) {
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        float sum = 0;
        for (Size k = 0; k < a.number; ++k) sum += a.shares[k * a.count + i];
        a.to[i] = a.bias ? sum + a.bias[i / a.inner % a.channels] : sum;
    }
}
