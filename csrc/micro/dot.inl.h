// The inner-product microkernel: every pair of a few left and a few right rows, lanes over the terms of the sum.
// The linear forward pass (both operands are contiguous along the sum) and the weight gradient of convolutions with few
// channels (lanes over pixels) are made of it. The function is in dot_body.inl.h.

constexpr int MAX_LEFT = REGISTERS < 32 || !READS_IN_FMA ? 4 : 6;
constexpr int MAX_RIGHT = 6;

// In 16 registers two rows go with five: 98 % of the peak rate of AVX2 on Zen 3 against 60 % with six.
constexpr int rights_of(int left) {
    return left == 2 && REGISTERS < 32 ? 5 : ACCUMULATORS / left > MAX_RIGHT ? MAX_RIGHT : ACCUMULATORS / left;
}

struct Dots {
    const float* left[MAX_LEFT];    // rows of left
    const float* right[MAX_RIGHT];  // rows of right
    const int64_t* off;  // [vectors], where each vector of a right row starts; a left row's vectors are consecutive
    int64_t vectors;
    int64_t tail;  // lanes of one more, partial vector, at vectors * W on both sides
    vf* sums;      // [left][right], lanes not yet summed
    bool add;      // start from what sums holds
    // As many such sums in one, and from the rows of one to those of the next.
    int64_t runs = 1, left_step = 0, right_step = 0;
};

// 1 to MAX_LEFT left rows with 1 to rights_of(left) right rows.
void dot_products(const Dots& d, int64_t left, int64_t right);

// out[i] = the sum of the lanes of vectors[i].
static void sum_lanes(const vf* vectors, int64_t count, float* out) {
    int64_t i = 0;
    for (; i + W <= count; i += W) store(out + i, sums(vectors + i));
    for (; i < count; ++i) out[i] = sum(vectors[i]);
}
