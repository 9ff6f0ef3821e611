// The same table of inner products as dot.inl.h, for instruction sets whose multiply-adds read a lane: lanes are left
// rows, which lie side by side, and the terms of a right row take their turns as lanes. A tile has four times as many
// sums for its loads, and no sum is spread over lanes. The function is in lane_dot_body.inl.h.

constexpr int MAX_LANE_VECTORS = 5;
// Right rows beside so many vectors of left rows.
constexpr int lane_rights_of(int vectors) { return vectors < 3 ? 8 : vectors == 3 ? 7 : vectors == 4 ? 5 : 4; }

struct LaneDots {
    const float* left;  // [term][vectors * W]
    int64_t vectors;
    const float* right[8];
    const int64_t* off;  // [quads], where each W terms of a right row start
    int64_t quads;
    int64_t tail, tail_at;  // terms of one more, partial quad, and where it starts in the right rows
    float* sums;            // [right row][vectors * W]
    bool add;               // start from what sums holds
    // As many such sums in one, and from the rows of one to those of the next.
    int64_t runs = 1, left_step = 0, right_step = 0;
};

// Whether so many left rows fill the lanes that they take, to more than three quarters.
static inline bool fills_lanes(int64_t lefts) { return BY_LANES && 4 * lefts > 3 * ((lefts + W - 1) / W * W); }

// 1 to MAX_LANE_VECTORS vectors with 1 to lane_rights_of(vectors) right rows.
void lane_products(const LaneDots& d, int64_t right);
