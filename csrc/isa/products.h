// The products that several parts are made of, compiled once for an instruction set. Included inside the namespace of
// that instruction set, after its vectors (csrc/simd).

#include "micro.h"

#include "../micro/product_body.inl.h"
#include "../micro/tile_body.inl.h"
#include "../micro/dot_body.inl.h"
#include "../micro/lane_dot_body.inl.h"
#include "../micro/small_product_body.inl.h"
