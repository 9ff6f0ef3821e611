// How a correlation by Winograd's tiles of EDGE x EDGE positions (correlate_tiles.inl.h) is cut up, and its memory.

// Floats: up to here all weights are transformed before the tiles pass by. Vectors of 16 floats outrun what is beyond
// L2.
constexpr int64_t WHOLE_WEIGHTS = W < 16 ? 1 << 20 : 1 << 18;
constexpr int64_t CHUNK_TILES = 1 << 16;  // floats of tiles, or of results, at a time beside whole weights
constexpr int64_t MOST_TILES = 100;  // of few channels: more would gain up to a tenth and take as much memory again
// The same where the weights are transformed group by group, a few sources at a time, so that they stay in L2.
constexpr int64_t CHUNK_TILES_APART = 1 << 19;
constexpr int64_t MOST_TILES_APART = 128;
constexpr int64_t PASS_SOURCES = 128;
// The same of tiles of 4x4 positions: a chunk's tiles, for which a group's weights are transformed anew, a pass's
// sources, and the most sources of all.
constexpr int64_t CHUNK_FOURS = 64, PASS_FOURS = 64, MOST_SOURCES_OF_FOURS = 256;
constexpr int64_t KEPT_WEIGHTS = 1 << 21;  // floats: up to here the groups' weights are kept from chunk to chunk
constexpr int64_t WEIGHT_COST = 32;     // of the transform of a target's 3x3 weights for one source, in multiply-adds
constexpr int64_t RUN_TILES = 1 << 12;  // floats of tiles of one point that stay in L1 while panels pass by

// Whether vectors of images are mostly full.
static bool fills_vectors(int64_t batch) { return 8 * ((batch + W - 1) / W * W) <= 9 * batch; }

template <int EDGE>
struct Winograd {
    static constexpr int64_t SPAN = EDGE + 2, POINTS = SPAN * SPAN;
    const Correlation& c;
    int64_t sources, targets;
    bool whole;            // all weights fit, transformed, beside the tiles
    Parts vectors;         // of images
    bool by_images;        // lanes are images, not tiles of a row
    Tiling tiling;         // by_images: of vectors of images, whose tiles are side by side
    Parts panels, groups;  // targets in panels; panels in groups
    Parts passes;          // sources whose weights are transformed at a time
    bool kept;             // weights of all groups and passes are transformed once, for several chunks of tiles
    int64_t pitch;         // floats from one channel's tiles to the next: an odd number of cache lines
    int64_t *off, *row;
    Vector* vector;
    float *zeros, *weights, *tiles, *results, *plane;

    explicit Winograd(const Correlation& c_)
        : c(c_), sources(count_of(c.sources, c.source_channels)), targets(count_of(c.targets, c.target_channels)),
          whole(EDGE == 2 && POINTS * sources * targets <= WHOLE_WEIGHTS), vectors(c.batch, W),
          by_images(EDGE > 2 || (2 * c.planes.cols.count <= W && fills_vectors(c.batch))),
          tiling(by_images ? vectors.count : c.batch, c.planes.rows.count, c.planes.cols.count, by_images ? W : 1,
                 fitting(), EDGE),
          panels(targets, MAX_ROWS),
          groups(whole ? Parts::into(panels.count, 1) : Parts::shared(panels.count, group_panels())),
          passes(sources, whole ? sources : pass_sources()),
          kept(EDGE == 2 && !whole && tiling.chunks.count > 1 && POINTS * sources * targets <= KEPT_WEIGHTS),
          pitch(((tiling.most() + W + LINE - 1) / LINE | 1) * LINE) {}

    int64_t group_panels() const { return EDGE > 2 && sources <= 2 * PASS_FOURS ? GROUP_PANELS / 2 : GROUP_PANELS; }
    static int64_t pass_sources() { return EDGE > 2 ? PASS_FOURS : PASS_SOURCES; }
    int64_t fitting() const {
        if (EDGE > 2) return CHUNK_FOURS;
        return whole ? least(MOST_TILES, CHUNK_TILES / (POINTS * (sources > targets ? sources : targets)))
                     : least(MOST_TILES_APART, CHUNK_TILES_APART / (POINTS * sources));
    }
    int64_t group_targets(int64_t g) const {
        return targets_before(groups.first(g) + groups.size(g)) - targets_before(groups.first(g));
    }
    int64_t targets_before(int64_t panel) const { return panel < panels.count ? panels.first(panel) : targets; }

    // Where the taps of a source are, from those of the first one.
    int64_t weights_at(int64_t s) const { return c.weight_of(id_of(c.sources, s), 0) - c.weight; }
    // Fetches the taps of `rows` targets that are met a few sources after source s, where they lie side by side.
    void fetch_taps(const float* from, int64_t s, int64_t rows) const {
        if (!c.transposed) return;
        const float* next = from + weights_at(least(s + SOURCE_RUNS, sources - 1));
        for (int64_t l = 0; l < 9 * rows; l += LINE) __builtin_prefetch(next + l);
    }

    // Floats from point to point: a cache line more than the data, so that the 16 points of one position lie in
    // different cache sets.
    int64_t weights_step(int64_t g) const { return weights_of(g, groups.size(g)) + LINE; }
    // Where panel k of a group starts; a cache line apart, as a vector's spare lanes are written while others are
    // filled.
    int64_t weights_of(int64_t g, int64_t k) const {
        return (targets_before(groups.first(g) + k) - targets_before(groups.first(g))) * passes.size(0) + k * LINE;
    }
    int64_t weights_size() const { return POINTS * weights_step(0); }
    int64_t tiles_step() const { return sources * (by_images ? most_vectors() * W : pitch) + LINE; }
    int64_t results_step(int64_t g) const { return group_targets(g) * pitch + LINE; }
    // Vectors of tiles that lie in whole runs.
    int64_t most_vectors() const { return ((tiling.most() + W - 1) / W + run() - 1) / run() * run(); }
    // Where a chunk's vector v starts, and how far it is from source to source: by images the tiles of a run of vectors
    // lie side by side, as rows of tiles do not fit in vectors.
    int64_t vector_at(int64_t v) const { return (by_images ? v / run() * run() * sources + v % run() : v) * W; }
    int64_t source_step() const { return by_images ? run() * W : pitch; }
    // Vectors of tiles that stay in L1 for all their sources.
    int64_t run() const {
        const int64_t fit = RUN_TILES / (least(passes.size(0), MAX_TERMS) * W);
        return fit < 2 ? 2 : fit;
    }
    int64_t tiles_size() const { return POINTS * tiles_step(); }
    int64_t results_size() const { return POINTS * results_step(0) + 2 * W; }
    // Of the cells of a strip and, of tiles of 4x4 positions, of the points along its rows.
    int64_t cells_size() const {
        return (EDGE * tiling.strips.size(0) + 2) * (EDGE * tiling.cols + 2 * (by_images ? W : 1)) + 3 * W;
    }
    int64_t plane_size() const {
        return cells_size() + (EDGE > 2 ? (EDGE * tiling.strips.size(0) + 2) * SPAN * tiling.cols : 0);
    }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(group_targets(0));
        vector = carve.take<Vector>((tiling.most() + W - 1) / W);
        zeros = carve.take<float>(MAX_ROWS);
        weights = carve.take<float>((whole ? 1 : kept ? groups.count * passes.count : crew) * weights_size());
        tiles = carve.take<float>((whole ? crew : 1) * tiles_size());
        results = carve.take<float>(crew * results_size());
        plane = carve.take<float>(crew * plane_size());
    }
};
