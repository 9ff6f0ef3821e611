// Correlation with windows of one cell and weights too many to be packed at once, as a language model has in its last
// layer.
//
// A block of targets and terms is packed, meets all positions of all images, and gives its memory to the next block.
// So the packed weights stay in L2, and packing memory does not grow with the layer. The terms of a tile of positions
// are copied side by side. Every sum has the order that correlate_rows gives it.

constexpr int64_t MOST_PACKED = 1 << 20;  // weights that correlate_rows packs at once
// Weights from which few positions gain: measured on Zen with AVX2, 8 images of 49 to 196 positions take .5 to .9 of
// their time, and 16 to 64 positions with 590,000 weights .6 to .9. Of 784 positions 192 to 32 channels take 1.4.
constexpr int64_t FEW_PACKED = 1 << 14;
constexpr int64_t POINT_PANELS = 512 / MAX_ROWS;
constexpr int64_t POINT_POSITIONS = 256;                 // of a tile
constexpr int64_t POINT_PITCH = POINT_POSITIONS + LINE;  // so that terms do not compete for lines of L1

// Positions up to which terms are as near to one another where they lie as in a tile.
constexpr int64_t IN_PLACE_POSITIONS = 64;

static bool prefers_points(const Correlation& c) {
    const auto plain = [](const Axis& axis) {
        return axis.kernel == 1 && axis.taps == 1 && axis.step == 1 && axis.origin == 0 && axis.count == axis.source;
    };
    const int64_t weights = count_of(c.sources, c.source_channels) * count_of(c.targets, c.target_channels);
    return c.groups == 1 && plain(c.planes.rows) && plain(c.planes.cols) && c.target_col == 1 &&
           c.target_row == c.planes.cols.count && !c.cleared_width &&
           (weights > MOST_PACKED || (weights >= FEW_PACKED && c.positions() <= POINT_POSITIONS));
}

struct PointPlan {
    const Correlation& c;
    int64_t sources, targets;
    Parts passes, panels, jobs, tiles;  // terms; targets in panels; panels of a job; positions
    int64_t *off, *row;
    bool once;                            // few positions: panels are packed one by one, and meet all of them
    bool in_place;                        // whether terms are read where they lie, few positions apart
    int64_t room_size;                    // floats for the function that packs
    float *start, *packed, *tile, *room;  // the last three of each thread

    PointPlan(const Correlation& c_, int64_t room_size_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          passes(sources, MAX_TERMS), panels(targets, MAX_ROWS), jobs(shared_panels()),
          tiles(c.positions(), POINT_POSITIONS),
          once(!c.transposed && c.batch * tiles.count * close_pitch() <= POINT_PITCH),
          in_place(BY_LANES && !c.sources.ids && c.positions() % W == 0 && c.positions() <= IN_PLACE_POSITIONS),
          room_size(room_size_) {}

    // As few jobs as have their packed weights in L2, and all threads the same number of.
    Parts shared_panels() const {
        const int64_t workers = macs() < THREAD_MACS ? 1 : threads(), each = (panels.count + workers - 1) / workers;
        return Parts(panels.count, least(each, POINT_PANELS));
    }
    int64_t macs() const { return c.batch * c.positions() * sources * targets; }
    int64_t packed_size() const { return (once ? 1 : jobs.size(0)) * MAX_ROWS * passes.size(0) + W; }
    int64_t close_pitch() const { return ((tiles.size(0) + LINE - 1) / LINE | 1) * LINE; }
    int64_t pitch() const { return in_place ? c.positions() : once ? close_pitch() : POINT_PITCH; }
    int64_t tile_size() const { return in_place ? 0 : (once ? c.batch : 1) * passes.size(0) * pitch(); }
    // The tile of an image, where all lie side by side.
    float* tile_of(float* first, int64_t image) const { return first + (once ? image * passes.size(0) * pitch() : 0); }
    const float* terms_of(int64_t image, int64_t pass) const {
        return c.source + (image * c.source_channels + passes.first(pass)) * c.positions();
    }

    void lay_out(Carve& carve) {
        off = carve.take<int64_t>(passes.size(0));
        row = carve.take<int64_t>(targets);
        start = carve.take<float>(targets);
        packed = carve.take<float>(threads_for(jobs.count) * packed_size());
        tile = carve.take<float>(threads_for(jobs.count) * tile_size());
        room = carve.take<float>(threads_for(jobs.count) * room_size);
    }
};

// The weights of one pass for the panels [first, first + count): [panel][term][row of the panel].
static void pack_points(const PointPlan& plan, int64_t first, int64_t count, int64_t pass, float* packed) {
    const Correlation& c = plan.c;
    const int64_t begin = plan.passes.first(pass), terms = plan.passes.size(pass);
    const Parts runs(terms, c.transposed ? SOURCE_RUNS : terms);
    for (int64_t r = 0; r < runs.count; ++r) {
        float* to = packed;
        for (int64_t p = first; p < first + count; ++p) {
            const int64_t rows = plan.panels.size(p), from_term = runs.first(r);
            const float* from[MAX_ROWS];
            for (int64_t m = 0; m < rows; ++m) from[m] = c.weight_of(0, id_of(c.targets, plan.panels.first(p) + m));
            if (!c.transposed && !c.sources.ids) {
                for (int64_t m = 0; m < rows; ++m) from[m] += begin;
                interleave(from, rows, terms, to, rows);
            } else if (W == 4 && c.transposed && !c.targets.ids && !c.sources.ids) {
                copy_rows(to + from_term * rows, rows, from[0] + (begin + from_term) * c.weight_inner, c.weight_inner,
                          runs.size(r), rows);
            } else if (c.transposed && !c.targets.ids) {
                for (int64_t t = from_term; t < from_term + runs.size(r); ++t)
                    copy_few(to + t * rows, from[0] + id_of(c.sources, begin + t) * c.weight_inner, rows);
            } else {
                for (int64_t t = from_term; t < from_term + runs.size(r); ++t) {
                    const int64_t at = c.weight_of(id_of(c.sources, begin + t), 0) - c.weight;
                    for (int64_t m = 0; m < rows; ++m) to[t * rows + m] = from[m][at];
                }
            }
            to += rows * terms;
        }
    }
}

// Lanes to spare hold zeros: numbers that happen to lie there may be subnormal.
static void copy_points(const PointPlan& plan, int64_t image, int64_t part, int64_t pass, float* tile) {
    const Correlation& c = plan.c;
    const int64_t width = plan.tiles.size(part), last = width / W * W;
    const float* from = c.source + image * c.source_channels * c.positions() + plan.tiles.first(part);
    for (int64_t t = 0; t < plan.passes.size(pass); ++t) {
        float* to = tile + t * plan.pitch();
        if (width > last) store(to + last, zero());
        copy_floats(to, from + id_of(c.sources, plan.passes.first(pass) + t) * c.positions(), width);
    }
}

// One tile of positions of an image with packed panels.
static void multiply_points(const PointPlan& plan, int64_t image, int64_t part, int64_t pass, int64_t first,
                            int64_t count, const float* packed, const float* tile) {
    const Correlation& c = plan.c;
    const int64_t width = plan.tiles.size(part), terms = plan.passes.size(pass);
    Vector vectors[POINT_POSITIONS / W];
    for (int64_t q = 0; q < width; q += W) vectors[q / W] = {q, q, least(W, width - q)};
    for (int64_t p = first; p < first + count; ++p) {
        const int64_t m = plan.panels.first(p), rows = plan.panels.size(p);
        const Product product{
            .a = packed,
            .b = tile,
            .off = plan.off,
            .terms = terms,
            .start = pass ? nullptr : plan.start + m,
            .c = c.target + image * c.target_channels * c.target_plane + plan.tiles.first(part),
            .row = plan.row + m,
            .vectors = vectors,
        };
        outer_product(product, rows, (width + W - 1) / W);
        packed += rows * terms;
    }
}

// pack(plan, first panel, panels, pass, packed, room) packs weights as pack_points does.
template <class Pack>
static efl_status correlate_points(const Correlation& c, int64_t room_size, const Pack& pack) {
    PointPlan plan(c, room_size);
    if (!place([&](Carve& carve) { plan.lay_out(carve); })) return EFL_NO_MEMORY;
    for (int64_t t = 0; t < plan.passes.size(0); ++t) plan.off[t] = t * plan.pitch() * OFF_UNIT;
    for (int64_t m = 0; m < plan.targets; ++m) {
        plan.row[m] = id_of(c.targets, m) * c.target_plane;
        plan.start[m] = c.bias ? c.bias[id_of(c.targets, m)] : 0;
    }
    each_block(plan.jobs.count, plan.macs(), plan.jobs.count, [&](int64_t job, int64_t thread) {
        float *packed = plan.packed + thread * plan.packed_size(), *tile = plan.tile + thread * plan.tile_size();
        float* room = plan.room + thread * plan.room_size;
        for (int64_t pass = 0; pass < plan.passes.count; ++pass) {
            const int64_t first = plan.jobs.first(job), count = plan.jobs.size(job);
            const auto multiply = [&](int64_t image, int64_t part, int64_t panel, int64_t panels) {
                const float* terms = plan.in_place ? plan.terms_of(image, pass) : plan.tile_of(tile, image);
                multiply_points(plan, image, part, pass, panel, panels, packed, terms);
            };
            if (!plan.once) pack(plan, first, count, pass, packed, room);
            for (int64_t image = 0; image < c.batch; ++image)
                for (int64_t part = 0; part < plan.tiles.count; ++part) {
                    if (!plan.in_place) copy_points(plan, image, part, pass, plan.tile_of(tile, image));
                    if (!plan.once) multiply(image, part, first, count);
                }
            for (int64_t p = first; plan.once && p < first + count; ++p) {
                pack(plan, p, 1, pass, packed, room);
                for (int64_t image = 0; image < c.batch; ++image) multiply(image, 0, p, 1);
            }
        }
    });
    return EFL_OK;
}

static efl_status correlate_points(const Correlation& c) {
    return correlate_points(
        c, 0, [](const PointPlan& plan, int64_t first, int64_t count, int64_t pass, float* packed, float*) {
            pack_points(plan, first, count, pass, packed);
        });
}
