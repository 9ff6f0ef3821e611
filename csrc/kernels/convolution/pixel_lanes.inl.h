// The sums of weight_by_pixels.inl.h with lanes over the left rows: images' left rows are put side by side, a block of
// them and a range of pixels that stays in L1 at a time, and meet all terms. A sum is whole when the images have
// passed.

constexpr int64_t LANE_FLOATS = 6144;  // of left rows side by side

// The left rows of one group in blocks of vectors, and how many pixels of an image stay in L1.
struct LaneBlocks {
    int64_t lefts;
    Parts vectors;
    int64_t quads;  // of pixels at a time

    LaneBlocks(const WeightPlan& plan, const WeightGroup& g)
        : lefts(plan.turned ? g.ins : g.outs), vectors((lefts + W - 1) / W, MAX_LANE_VECTORS),
          quads(least(plan.vectors + 1, LANE_FLOATS / (vectors.size(0) * W * W))) {}

    int64_t first(int64_t block) const { return vectors.first(block) * W; }
    int64_t size(int64_t block) const { return least(lefts - first(block), vectors.size(block) * W); }
    // Of the left rows of `images` images side by side.
    int64_t floats(int64_t images) const { return images * (quads * W + W) * vectors.size(0) * W + W; }
};

// A range of an image's pixels, in quads; the last one has the tail.
struct PixelRange {
    int64_t first, quads, tail;

    int64_t pixels() const { return quads * W + tail; }
};

int64_t WeightPlan::lane_floats() const {
    return LaneBlocks(*this, WeightGroup{.out = 0, .outs = outs, .in = 0, .ins = ins, .sums = 0}).floats(pass);
}

static void put_lefts_side_by_side(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g,
                                   const LaneBlocks& blocks, int64_t block, int64_t image, const PixelRange& range,
                                   float* to) {
    const int64_t lefts = blocks.size(block), pitch = blocks.vectors.size(block) * W;
    const float* from[MAX_LANE_VECTORS * W];
    for (int64_t m = 0; m < lefts; ++m)
        from[m] = left_row(w, plan, g, image, blocks.first(block) + m) + range.first * W;
    interleave(from, lefts, range.pixels(), to, pitch);
}

// Adds a range of `count` images to the sums of one block of left rows, [block of terms][term][left row].
static void add_range(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, const LaneBlocks& blocks,
                      int64_t block, int64_t image, int64_t count, const PixelRange& range, bool fresh, float* sums) {
    const int64_t vectors = blocks.vectors.size(block), step = range.pixels() * vectors * W;
    for (int64_t n = 0; n < count; ++n) {
        WeightPlan one = plan;
        one.dy += n * plan.dy_size();
        put_lefts_side_by_side(w, one, g, blocks, block, image + n, range, plan.lanes + n * step);
    }
    const Parts rights((plan.turned ? g.outs : g.ins) * w.taps(), lane_rights_of(int(vectors)));
    LaneDots d{
        .left = plan.lanes,
        .vectors = vectors,
        .right = {},
        .off = plan.off + range.first,
        .quads = range.quads,
        .tail = range.tail,
        .tail_at = (range.first + range.quads) * W,
        .sums = sums,
        .add = !fresh,
        .runs = count,
        .left_step = step,
        .right_step = plan.planes_size(w),
    };
    const int64_t* term = plan.term;
    for (int64_t r = 0; r < rights.count; ++r) {
        for (int64_t k = 0; k < rights.size(r); ++k) d.right[k] = plan.planes + *term++;
        lane_products(d, rights.size(r));
        d.sums += rights.size(r) * vectors * W;
    }
}

static void add_images_by_lanes(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t image,
                                int64_t count, bool first) {
    for (int64_t n = 0; n < count; ++n)
        fill_image(w, plan, g, image + n, plan.planes + n * plan.planes_size(w), plan.dy + n * plan.dy_size());
    const LaneBlocks blocks(plan, g);
    const int64_t terms = (plan.turned ? g.outs : g.ins) * w.taps();
    float* sums = reinterpret_cast<float*>(plan.sums + g.sums);
    for (int64_t b = 0; b < blocks.vectors.count; ++b) {
        for (int64_t q = 0; q == 0 || q < plan.vectors; q += blocks.quads) {
            const int64_t quads = least(blocks.quads, plan.vectors - q);
            const PixelRange range{q, quads, q + quads == plan.vectors ? plan.tail : 0};
            add_range(w, plan, g, blocks, b, image, count, range, first && q == 0, sums);
        }
        sums += terms * blocks.vectors.size(b) * W;
    }
}

// partial[left row][term] of one group.
static void collect_lanes(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, float* partial) {
    const LaneBlocks blocks(plan, g);
    const int64_t terms = (plan.turned ? g.outs : g.ins) * w.taps();
    const float* sums = reinterpret_cast<const float*>(plan.sums + g.sums);
    for (int64_t b = 0; b < blocks.vectors.count; ++b) {
        const int64_t pitch = blocks.vectors.size(b) * W;
        for (int64_t m = 0; m < blocks.size(b); ++m, partial += terms)
            for (int64_t k = 0; k < terms; ++k) partial[k] = sums[k * pitch + m];
        sums += terms * pitch;
    }
}
