// Included inside the tier's namespace, after its simd words. The tile of each is the largest that kernels take.

#include "../../csrc/isa/micro.h"

#include "../../csrc/kernels/sparse_linear/structure.inl.h"
#include "../../csrc/kernels/sparse_linear/panels.inl.h"
#include "../../csrc/kernels/sparse_linear/products.inl.h"
#include "../../csrc/kernels/sparse_convolution/patterns.inl.h"
#include "../../csrc/kernels/sparse_convolution/tiles.inl.h"
#include "../../csrc/kernels/sparse_convolution/maps.inl.h"

#define LOOP(name, arguments, ...) \
    extern "C" void name arguments; \
    extern "C" void name arguments { __VA_ARGS__; }

LOOP(dense_by_columns, (const Tiles& p, int64_t n), (multiply_tiles<TILE_ROWS, words_of_tile(TILE_ROWS), false>(p, n, W)))
LOOP(dense_by_rows, (const Tiles& p, int64_t n), (multiply_tiles<TILE_ROWS, words_of_tile(TILE_ROWS), true>(p, n, W)))
LOOP(dense_by_rows6, (const Tiles& p, int64_t n), (multiply_tiles<6, 4, true>(p, n, W)))
LOOP(dense_by_columns6, (const Tiles& p, int64_t n), (multiply_tiles<6, 4, false>(p, n, W)))
LOOP(outer12, (const Product& p, int64_t n), (outer<12, 2>(p, n)))
LOOP(outer8, (const Product& p, int64_t n), (outer<8, 3>(p, n)))
LOOP(outer6, (const Product& p, int64_t n), (outer<6, 4>(p, n)))
LOOP(outer4, (const Product& p, int64_t n), (outer<4, 6>(p, n)))
LOOP(dots64, (const Dots& p), (dots<6, 4>(p)))
LOOP(dots46, (const Dots& p), (dots<4, 6>(p)))
LOOP(sparse_linear8, (const SparseLinear& s, const float* tile, const float* values, float* sums), (sparse_forward<8>(s, 0, 1, tile, values, nullptr, sums)))
LOOP(sparse_dots8, (const SparseLinear& s, const float* tile, const float* values, float* sums), (sparse_dots<8>(s, 0, 1, tile, values, true, sums)))
LOOP(sparse_tiles37, (const SparseLists& p), (add_lists<3, 7>(p)))
LOOP(sparse_maps4, (const SparseLists& p), (add_maps<4>(p)))
LOOP(sparse_linear16, (const SparseLinear& s, const float* tile, const float* values, float* sums), (sparse_forward<16>(s, 0, 1, tile, values, nullptr, sums)))
