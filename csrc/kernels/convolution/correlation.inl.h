// A correlation of planes with weights, as convolution forward and its input gradient ask for it, and its groups.

struct Correlation {
    Planes planes;
    int64_t batch, groups;
    const float* source;
    int64_t source_channels;
    efl_index sources;
    const float* weight;
    bool transposed;       // weight is [source][target in its group] instead of [target][source in its group]
    int64_t weight_inner;  // channels of the weight's second axis
    const float* bias;     // [target_channels] or nullptr
    float* target;
    int64_t target_channels;
    efl_index targets;
    // Distances in target between channels, rows and columns of positions.
    int64_t target_plane, target_row, target_col;
    int64_t cleared_width = 0;  // of the target, where what lies between the positions is 0 and is to be written, too

    int64_t positions() const { return planes.rows.count * planes.cols.count; }
    int64_t taps() const { return planes.rows.taps * planes.cols.taps; }

    // inner: the first channel of the group on the weight's second axis.
    const float* weight_of(int64_t from, int64_t to, int64_t inner = 0) const {
        const int64_t kernel = planes.rows.kernel * planes.cols.kernel;
        return weight + (transposed ? from * weight_inner + to - inner : to * weight_inner + from - inner) * kernel;
    }
};

// The results of every second column and of some rows; zeros between them.
static void write_among_zeros(const Correlation& c, const float* from, float* to) {
    const int64_t height = c.planes.rows.count, width = c.planes.cols.count, row = c.cleared_width;
    for (int64_t r = 0; r < height; ++r, from += width) {
        for (int64_t q = 0; q < row; q += 2 * W) {
            const vf v = load_n(from + q / 2, int(least(W, width - q / 2)));
            store_zipped(to + r * c.target_row + q, v, zero(), least(2 * W, row - q));
        }
        zero_floats(to + r * c.target_row + row, least(c.target_row, c.target_plane - r * c.target_row) - row);
    }
}

// A plane of results, side by side, to its rows and columns of the target.
static void write_plane(const Correlation& c, const float* from, float* to) {
    const int64_t height = c.planes.rows.count, width = c.planes.cols.count;
    if (c.target_col == 1 && c.target_row == width) return copy_floats(to, from, height * width);
    if (c.cleared_width) return write_among_zeros(c, from, to);
    for (int64_t r = 0; r < height; ++r, from += width, to += c.target_row) {
        if (c.target_col == 2)
            for (int64_t q = 0; q < width; q += W) spread(to + 2 * q, from + q, int(least(W, width - q)));
        else
            for (int64_t q = 0; q < width; ++q) to[q * c.target_col] = from[q];
    }
}

// The sources and targets of one group: ranges of the two indices, where its packed weights start, and its first
// channel on the weight's second axis.
struct ChannelGroup {
    int64_t source, sources, target, targets, weights, inner;
};

// Calls visit(group) for every group that has targets, in order.
template <class Visit>
static void each_group(const Correlation& c, Visit&& visit) {
    const int64_t n_sources = count_of(c.sources, c.source_channels),
                  n_targets = count_of(c.targets, c.target_channels);
    ChannelGroup g{};
    for (int64_t i = 1; i <= c.groups; ++i) {
        g.sources = g.targets = 0;
        while (g.source + g.sources < n_sources &&
               id_of(c.sources, g.source + g.sources) < i * (c.source_channels / c.groups))
            ++g.sources;
        while (g.target + g.targets < n_targets &&
               id_of(c.targets, g.target + g.targets) < i * (c.target_channels / c.groups))
            ++g.targets;
        if (g.targets) visit(g);
        g.source += g.sources;
        g.target += g.targets;
        g.weights += g.sources * g.targets * c.taps();
        g.inner += c.weight_inner;
    }
}

// Sources at a time where weights are transposed: each is a run of weights of its own, and a processor follows so many
// runs ahead of time.
constexpr int64_t SOURCE_RUNS = 16;
