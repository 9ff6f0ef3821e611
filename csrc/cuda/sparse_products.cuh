// Results of masked layers: each row sums its weights' products with positions of a tile in shared memory. Forward
// passes, and gradients of inputs with a transposed structure; not those of weights (sparse_gradients.cuh).
//
// A thread has ROWS rows' results at one position of 4 * QUADS images, so that a weight, which all threads of a row
// read at once, is worth as many products, and a position of shared memory four.
#pragma once
#include "sparse_positions.cuh"
#include "sparse_tile.cuh"

constexpr int SPARSE_LISTS = 512;  // of the rows of a block of threads

EFL_DEVICE float& sparse_part(float4& four, int k) {
    return k == 0 ? four.x : k == 1 ? four.y : k == 2 ? four.z : four.w;
}

template <int QUADS>
EFL_DEVICE void sparse_row(const SparseEntry* entries, SparseList list, const float4* from, float4 (&sums)[QUADS]) {
    for (int i = list.first; i < list.first + list.count; ++i) {
        const SparseEntry one = entries[i];
        const float weight = sparse_value(one);
        EFL_UNROLL
        for (int quad = 0; quad < QUADS; ++quad) {
            const float4 x = from[one.position + quad * (SPARSE_POSITIONS / QUADS)];
            float4& sum = sums[quad];
            sum.x = fmaf(weight, x.x, sum.x), sum.y = fmaf(weight, x.y, sum.y);
            sum.z = fmaf(weight, x.z, sum.z), sum.w = fmaf(weight, x.w, sum.w);
        }
    }
}

// Where a row's result at a spot lies, but for the image; null beyond the last one. Where several blocks of threads
// share the channels, each has results of its own.
EFL_DEVICE float* sparse_result(const SparseProductArgs& a, const SparseSpot& spot, int row) {
    const int along_phases = int(a.layer.results_along), phases = int(a.layer.results_down) * along_phases;
    const int channel = row / phases, phase = row % phases;
    const int down = spot.down * int(a.layer.results_down) + phase / along_phases;
    const int along = spot.along * along_phases + phase % along_phases;
    const int height = int(a.y.height), width = int(a.y.width);
    if (!spot.is_inside || down >= height || along >= width) return nullptr;
    float* const y = const_cast<float*>(a.y.data) + blockIdx.z * a.layer.batch * a.y.channels * height * width;
    return y + (channel * height * width + down * width + along) * int(a.y.lanes);
}

EFL_DEVICE float sparse_bias(const SparseProductArgs& a, int row) {
    return a.bias ? a.bias[row / int(a.layer.results_down * a.layer.results_along)] : 0.0f;
}

template <int QUADS>
EFL_DEVICE void sparse_store(const SparseProductArgs& a, const SparseSpot& spot, int row, float4 (&sums)[QUADS]) {
    float* const at = sparse_result(a, spot, row);
    if (!at) return;
    const float bias = sparse_bias(a, row);
    EFL_UNROLL
    for (int k = 0; k < 4 * QUADS; ++k) {
        const int image = spot.image + k;
        if (image < a.layer.batch) at[sparse_image(a.y, image)] = sparse_part(sums[k / 4], k % 4) + bias;
    }
}

template <int ROWS, int QUADS>
EFL_DEVICE void sparse_product(const SparseProductArgs& a, float4* positions, SparseList* lists) {
    const int lanes = int(a.tiling.lanes), takers = SPARSE_THREADS / lanes, rows = int(a.layer.rows);
    const int first = int(blockIdx.y) * takers * ROWS, taker = int(threadIdx.x) / lanes, tile = int(blockIdx.x);
    const SparseSpot spot = sparse_spot<QUADS>(a.layer, a.tiling, tile);
    float4 sums[ROWS][QUADS];
    EFL_UNROLL
    for (int k = 0; k < ROWS; ++k) {
        EFL_UNROLL
        for (int quad = 0; quad < QUADS; ++quad) sums[k][quad] = make_float4(0, 0, 0, 0);
    }
    const int blocks = a.layer.said ? a.layer.said->number : int(a.layer.blocks * a.layer.cuts);
    const int share = (blocks + int(gridDim.z) - 1) / int(gridDim.z), from = int(blockIdx.z) * share;
    for (int block = from; block < smaller(from + share, blocks); ++block) {
        barrier();
        sparse_load<QUADS>(a.x, a.layer, a.tiling, tile, block, positions);
        for (int i = int(threadIdx.x); i < takers * ROWS; i += SPARSE_THREADS)
            lists[i] = first + i < rows ? a.lists[block * rows + first + i] : SparseList{0, 0};
        barrier();
        EFL_UNROLL
        for (int k = 0; k < ROWS; ++k)
            sparse_row<QUADS>(a.entries, lists[taker + k * takers], positions + spot.position, sums[k]);
    }
    EFL_UNROLL
    for (int k = 0; k < ROWS; ++k) {
        const int row = first + taker + k * takers;
        if (row < rows) sparse_store<QUADS>(a, spot, row, sums[k]);
    }
}

EFL_KERNEL(sparse_product_large, 256) {
    EFL_SHARED float4 positions[SPARSE_POSITIONS];
    EFL_SHARED SparseList lists[SPARSE_LISTS];
    sparse_product<8, 2>(a, positions, lists);
}

EFL_KERNEL(sparse_product_medium, 256) {
    EFL_SHARED float4 positions[SPARSE_POSITIONS];
    EFL_SHARED SparseList lists[SPARSE_LISTS];
    sparse_product<4, 1>(a, positions, lists);
}

EFL_KERNEL(sparse_product_small, 256) {
    EFL_SHARED float4 positions[SPARSE_POSITIONS];
    EFL_SHARED SparseList lists[SPARSE_LISTS];
    sparse_product<1, 1>(a, positions, lists);
}

// ---- windows that are too large for a tile -------------------------------------------------------------------------

// What an entry whose position is one of a block's window, [channels, phases, shifts down, shifts along], reads for the
// position (down, along); 0 in the padding.
EFL_DEVICE float sparse_read(const SparseImages& x, const SparseLayer& layer, int block, int position, int image,
                             int down, int along) {
    const int shifts_down = int(layer.extent_down) + 1, shifts_along = int(layer.extent_along) + 1;
    const int phases_along = int(layer.phases_along), phases = int(layer.phases_down) * phases_along;
    const int rest = position / shifts_along / shifts_down, phase = rest % phases;
    const int channel = sparse_channels(layer, block).first + rest / phases, height = int(x.height),
              width = int(x.width);
    const int i = (down + position / shifts_along % shifts_down) * int(layer.step_down) + int(layer.start_down) +
                  phase / phases_along;
    const int j =
        (along + position % shifts_along) * int(layer.step_along) + int(layer.start_along) + phase % phases_along;
    if (i < 0 || i >= height || j < 0 || j >= width || channel >= layer.channels) return 0.0f;
    return x.data[sparse_image(x, image) + ((channel * height + i) * width + j) * int(x.lanes)];
}

EFL_KERNEL(sparse_product_direct, 256) {
    const Size positions = a.layer.down * a.layer.along;
    for (Size i = thread_of_grid(); i < a.layer.batch * a.layer.rows * positions; i += threads_of_grid()) {
        const int row = int(i / positions % a.layer.rows);
        SparseSpot spot;
        spot.down = int(i % positions / a.layer.along), spot.along = int(i % a.layer.along);
        spot.image = int(i / positions / a.layer.rows), spot.is_inside = true;
        float sum = 0;
        for (int block = 0; block < a.layer.blocks * a.layer.cuts; ++block) {
            const SparseList list = a.lists[block * a.layer.rows + row];
            EFL_ROLLED
            for (int e = list.first; e < list.first + list.count; ++e) {
                const float x =
                    sparse_read(a.x, a.layer, block, a.entries[e].position, spot.image, spot.down, spot.along);
                sum = fmaf(sparse_value(a.entries[e]), x, sum);
            }
        }
        if (float* const at = sparse_result(a, spot, row))
            at[sparse_image(a.y, spot.image)] = sum + sparse_bias(a, row);
    }
}
