// What the bodies of an instruction set share. Included inside the namespace of that instruction set, after its vectors
// (csrc/simd). No part needs all of this file. The products are declared here and compiled once for an instruction set
// (products.h). Nothing may be shared with another instruction set: its namespace is its own.

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

#include "../math/clamp.inl.h"
#include "../math/exp.inl.h"
#include "../math/sigmoid.inl.h"
#include "../micro/index.inl.h"
#include "../micro/loops.inl.h"
#include "../micro/turns.inl.h"
#include "../micro/channels.inl.h"
#include "../micro/sums.inl.h"
#include "../micro/pairs.inl.h"
#include "../micro/carve.inl.h"
#include "../micro/bits.inl.h"
#include "../micro/copy.inl.h"
#include "../micro/interleave.inl.h"
#include "../micro/by_lanes.inl.h"
#include "../micro/in_order.inl.h"
#include "../micro/term_pairs.inl.h"
#include "../micro/term_quads.inl.h"
#include "../micro/product.inl.h"
#include "../micro/tile.inl.h"
#include "../micro/dot.inl.h"
#include "../micro/lane_dot.inl.h"
#include "../micro/transpose.inl.h"
#include "../micro/small_product.inl.h"

#pragma GCC diagnostic pop
