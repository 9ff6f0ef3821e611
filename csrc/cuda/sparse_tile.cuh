// Tiles of a masked layer's source: the cells that one block of results reads of one block of channels, in shared
// memory. A Linear layer's planes have one cell. Not the products.
#pragma once
#include "portable.cuh"
#include "sparse_positions.cuh"

// What the tiles of a block of threads read, one after another.
struct SparseChannels {
    int first, count;
};

EFL_DEVICE SparseChannels sparse_channels(const SparseLayer& layer, int number) {
    const int cuts = int(layer.cuts), cut = number % cuts * int(layer.cut);
    const int most = layer.said ? layer.said->width : int(layer.block), first = number / cuts * most + cut;
    const int in_block = cuts == 1 ? most : smaller(int(layer.cut), most - cut);
    return {first, larger(smaller(in_block, int(layer.channels) - first), 0)};
}

constexpr int SPARSE_THREADS = 256;
constexpr int SPARSE_POSITIONS = 2048;  // of shared memory, of 4 images each

EFL_DEVICE int sparse_image(const SparseImages& images, int image) {
    const int size = int(images.channels * images.height * images.width), lanes = int(images.lanes);
    return lanes == 1 ? image * size : image / lanes * size * lanes + image % lanes;
}

// Division of numbers below 2^16 by a number that is not known to the compiler.
struct SparseDivisor {
    unsigned by, factor;
};

EFL_DEVICE SparseDivisor sparse_divisor(int by) { return {unsigned(by), by > 1 ? 0xffffffffu / unsigned(by) + 1 : 0}; }

EFL_DEVICE int operator/(int number, const SparseDivisor& d) {
    return d.by == 1 ? number : int((unsigned long long)(unsigned(number)) * d.factor >> 32);
}

// Which results a thread computes: a position of 4 * QUADS images.
struct SparseSpot {
    int down, along, image;  // of the result's phase, and the first of the images
    int position;            // in a tile, of a weight that reads the first cell
    bool is_inside;
};

template <int QUADS>
EFL_DEVICE SparseSpot sparse_spot(const SparseLayer& layer, const SparseTiling& tiling, int tile) {
    const int lane = int(threadIdx.x) % int(tiling.lanes), along = int(tiling.along), groups = int(tiling.groups);
    const int position = lane / groups, group = lane % groups;
    const bool is_one = position < int(tiling.down) * along;
    const int i = is_one ? position / along : 0, j = is_one ? position % along : 0;
    const int rest = tile / int(tiling.tiles_along);
    SparseSpot spot;
    spot.along = tile % int(tiling.tiles_along) * along + j;
    spot.down = rest % int(tiling.tiles_down) * int(tiling.down) + i;
    spot.image = (rest / int(tiling.tiles_down) * groups + group) * 4 * QUADS;
    spot.position = (i * int(tiling.pitch) + j) * int(tiling.group_pitch) + group;
    spot.is_inside = is_one && spot.down < layer.down && spot.along < layer.along && spot.image < layer.batch;
    return spot;
}

// Fills `positions` [QUADS][SPARSE_POSITIONS / QUADS] with a tile's channels; 0 in the padding and beyond the last
// image.
template <int QUADS>
EFL_DEVICE void sparse_load(const SparseImages& x, const SparseLayer& layer, const SparseTiling& tiling, int tile,
                            int block, float4* positions) {
    const SparseChannels read = sparse_channels(layer, block);
    const int first = read.first, channels = read.count;
    const int phases_along = int(layer.phases_along), phases = int(layer.phases_down) * phases_along;
    const int rows = int(tiling.down + layer.extent_down), pitch = int(tiling.pitch);
    const int cells = channels * phases * rows * pitch, groups = int(tiling.groups);
    const int rest = tile / int(tiling.tiles_along);
    const int top = rest % int(tiling.tiles_down) * int(tiling.down);
    const int left = tile % int(tiling.tiles_along) * int(tiling.along);
    const int images = rest / int(tiling.tiles_down) * groups;
    const int height = int(x.height), width = int(x.width), lanes = int(x.lanes);
    const SparseDivisor by_cells = sparse_divisor(cells), by_pitch = sparse_divisor(pitch);
    const SparseDivisor by_rows = sparse_divisor(rows), by_phases = sparse_divisor(phases);
    EFL_ROLLED
    for (int i = int(threadIdx.x); i < cells * groups; i += SPARSE_THREADS) {
        const int group = i / by_cells, cell = i - group * cells;
        const int row = cell / by_pitch, plane = row / by_rows, channel = plane / by_phases;
        const int phase = plane - channel * phases, of_down = phases == 1 ? 0 : phase / phases_along;
        const int down = (top + row - plane * rows) * int(layer.step_down) + int(layer.start_down) + of_down;
        const int along = (left + cell - row * pitch) * int(layer.step_along) + int(layer.start_along) + phase -
                          of_down * phases_along;
        const bool is_inside = down >= 0 && down < height && along >= 0 && along < width;
        const float* const at = x.data + ((first + channel) * height * width + down * width + along) * lanes;
        float4* const to = positions + cell * int(tiling.group_pitch) + group;
        EFL_UNROLL
        for (int quad = 0; quad < QUADS; ++quad) {
            float value[4];
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) {
                const int image = ((images + group) * QUADS + quad) * 4 + k;
                value[k] = is_inside && image < layer.batch ? at[sparse_image(x, image)] : 0.0f;
            }
            to[quad * (SPARSE_POSITIONS / QUADS)] = make_float4(value[0], value[1], value[2], value[3]);
        }
    }
}
