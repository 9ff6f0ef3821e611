// The outer-product microkernel: a few rows times a few vectors, held in registers over all the terms of a sum.
// Convolutions (forward, input gradient) and the linear gradients are made of it. The function is in
// product_body.inl.h.
//
//     c[row m][vector v] = start[m] + sum over t of a[t][m] * b[from v + off[t]]
//
// `a` is packed, so its loads are broadcasts of consecutive floats. `b` is any memory whose vectors are contiguous: the
// shifted planes of an image and a packed panel differ in the table `off` alone, so a convolution needs no im2col.

constexpr int ACCUMULATORS = REGISTERS / 4 * 3;  // the other registers hold the operands of one term
constexpr int MAX_ROWS = READS_IN_FMA ? ACCUMULATORS / 2 : ACCUMULATORS / 3;
constexpr int vectors_per_tile(int rows) { return ACCUMULATORS / rows > 8 ? 8 : ACCUMULATORS / rows; }
constexpr int64_t MAX_TERMS = REGISTERS < 32 ? 384 : 448;  // a pass: a panel and the cache lines it meets stay in L1

// Where a processor adds a distance to a pointer of a vector but does not scale it, distances are bytes.
constexpr int64_t OFF_UNIT = BY_LANES ? int64_t(sizeof(float)) : 1;

// One vector of the result: where it starts in `b` and in a row of `c`, and how many of its lanes count.
struct Vector {
    int64_t from, to, lanes;
};

struct Product {
    const float* a;  // [terms][rows]
    const float* b;
    const int64_t* off;  // [terms], in floats, of which each counts OFF_UNIT
    int64_t terms;
    const float* start;  // [rows]; nullptr: start from what c holds
    float* c;
    const int64_t* row;  // [rows], where each row starts in c
    const Vector* vectors;
};

// The product of 1 to MAX_ROWS rows with any number of vectors.
void outer_product(const Product& product, int64_t rows, int64_t vectors);
