// Included inside the tier's namespace, after its simd words: each product with the tile that most of its work is in.

#include "../../csrc/isa/products.h"

#include "../../csrc/kernels/sparse_linear/structure.inl.h"
#include "../../csrc/kernels/sparse_linear/panels.inl.h"
#include "../../csrc/kernels/sparse_linear/products.inl.h"
#include "../../csrc/kernels/sparse_convolution/patterns.inl.h"
#include "../../csrc/kernels/sparse_convolution/tiles.inl.h"
#include "../../csrc/kernels/sparse_convolution/maps.inl.h"

#define LOOP_WITH(words, name, arguments, call) \
    extern "C" void name arguments;             \
    extern "C" words void name arguments { call; }
#define LOOP(name, arguments, call) LOOP_WITH(, name, arguments, call)
// Of a product that csrc/isa/products.h calls, too, and that is therefore not a part of the function without the word.
#define PRODUCT(name, arguments, call) LOOP_WITH(__attribute__((flatten)), name, arguments, call)

PRODUCT(convolution_8x3, (const Product& p, int64_t n), (outer<8, 3>(p, n)))
PRODUCT(convolution_6x4, (const Product& p, int64_t n), (outer<6, 4>(p, n)))
PRODUCT(linear_8x3_by_columns, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, false>(p, n, W)))
PRODUCT(linear_8x3_by_rows, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, true>(p, n, W)))
LOOP(dw_by_pixels_4x6, (const Dots& p), (dots<4, 6>(p)))
LOOP(lanes_5x4, (const LaneDots& d), (lane_tile<5, 4>(d)))
LOOP(sparse_linear_8, (const SparseLinear& s, const float* x, const float* w, float* y),
     (sparse_forward<8>(s, 0, 1, x, w, nullptr, y)))
LOOP(sparse_convolution_3x7, (const SparseLists& p), (add_lists<3, 7>(p)))
LOOP(sparse_map_4x4, (const SparseLists& p), (add_maps<4>(p)))
PRODUCT(convolution_8x2_in_order, (const Product& p, int64_t n), (outer<8, 2, true>(p, n)))
PRODUCT(convolution_8x3_in_order, (const Product& p, int64_t n), (outer<8, 3, true>(p, n)))
PRODUCT(linear_8x3_in_order, (const Tiles& p, int64_t n), (multiply_tiles<8, 3, false, false, Order::GROUPED>(p, n, W)))
PRODUCT(linear_8x2_in_order, (const Tiles& p, int64_t n), (multiply_tiles<8, 2, false, false, Order::IN_PAIRS>(p, n, W)))

#undef PRODUCT
#undef LOOP
#undef LOOP_WITH
