// Tiles that are read along one axis and written along the other, both in whole cache lines. What is read, and where
// rows of it begin, is the caller's (arrange.cuh).
#pragma once
#include "portable.cuh"

constexpr int TILE = 32, TILE_THREADS = 256;
using Tile = float[TILE][TILE + 1];  // a column more, so that a column of it lies in 32 banks

// Tiles of [batch, rows, cols], one a block: this block's image and corner.
struct TilePosition {
    int image, row, col;
};

EFL_DEVICE TilePosition tile_of_block(int rows, int cols) {
    const int across = (cols + TILE - 1) / TILE, tiles = across * ((rows + TILE - 1) / TILE);
    const int tile = int(blockIdx.x) % tiles;
    return {int(blockIdx.x) / tiles, tile / across * TILE, tile % across * TILE};
}

// write(image, r, c, read(image, r, c)), of all positions of this block's tile: read along c, written along r.
template <class Read, class Write>
EFL_DEVICE void exchange_tile(int rows, int cols, Tile& shared, const Read& read, const Write& write) {
    const TilePosition position = tile_of_block(rows, cols);
    const int lane = int(threadIdx.x) % TILE, first = int(threadIdx.x) / TILE;
    for (int r = first; r < TILE; r += TILE_THREADS / TILE)
        if (position.row + r < rows && position.col + lane < cols)
            shared[r][lane] = read(position.image, position.row + r, position.col + lane);
    barrier();
    for (int c = first; c < TILE; c += TILE_THREADS / TILE)
        if (position.col + c < cols && position.row + lane < rows)
            write(position.image, position.row + lane, position.col + c, shared[lane][c]);
}

// y[image, c, r] = read(image, r, c), of y [batch, cols, rows].
template <class Read>
EFL_DEVICE void transpose_tile(int rows, int cols, float* y, Tile& shared, const Read& read) {
    exchange_tile(rows, cols, shared, read,
                  [&](int image, int r, int c, float value) { y[(Size(image) * cols + c) * rows + r] = value; });
}
