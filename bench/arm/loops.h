// Included inside the tier's namespace, after its simd words: each product with the tile that most of its work is in.

#include "../../csrc/isa/products.h"

#include "../../csrc/kernels/sparse_linear/structure.inl.h"
#include "../../csrc/kernels/sparse_linear/panels.inl.h"
#include "../../csrc/kernels/sparse_linear/products.inl.h"
#include "../../csrc/kernels/sparse_convolution/patterns.inl.h"
#include "../../csrc/kernels/sparse_convolution/tiles.inl.h"
#include "../../csrc/kernels/sparse_convolution/maps.inl.h"

#define LOOP(name, arguments, call) \
    extern "C" void name arguments; \
    extern "C" __attribute__((flatten)) void name arguments { call; }

LOOP(convolution_8x3, (const Product& p, int64_t n), (outer<8, 3>(p, n)))
LOOP(convolution_6x4, (const Product& p, int64_t n), (outer<6, 4>(p, n)))
LOOP(linear_8x3_by_columns, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, false>(p, n, W)))
LOOP(linear_8x3_by_rows, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, true>(p, n, W)))
LOOP(dw_by_pixels_4x6, (const Dots& p), (dots<4, 6>(p)))
LOOP(sparse_linear_8, (const SparseLinear& s, const float* x, const float* w, float* y),
     (sparse_forward<8>(s, 0, 1, x, w, nullptr, y)))
LOOP(sparse_convolution_3x7, (const SparseLists& p), (add_lists<3, 7>(p)))
LOOP(sparse_map_4x4, (const SparseLists& p), (add_maps<4>(p)))
LOOP(convolution_8x3_in_order, (const Product& p, int64_t n), (outer<8, 3, true>(p, n)))
LOOP(linear_8x3_in_order, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, false, false, Order::GROUPED>(p, n, W)))
LOOP(linear_8x2_in_order, (const Tiles& p, int64_t n), (multiply_tiles<8, 2, false, false, Order::IN_PAIRS>(p, n, W)))

#undef LOOP
