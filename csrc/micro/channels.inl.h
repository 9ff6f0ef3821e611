// Vectors of channels: lanes are channels, as where a plane is a single value, and of some indices not all are members.

// n <= W channels from `first` on.
struct ChannelVector {
    int64_t first;
    int n;

    vf read(const float* row) const { return n == W ? load(row + first) : load_n(row + first, n); }
    unsigned all() const { return (1u << n) - 1u; }
    void write(float* row, vf v, unsigned members) const {
        if (members == (1u << W) - 1u) store(row + first, v);
        else store_bits(row + first, v, members);
    }
};

// Which channels of a vector an index has; vectors are asked for in ascending order. `position`: of the first such
// channel among ids.
struct Members {
    efl_index index;
    int64_t position = 0, next = 0;

    unsigned of(const ChannelVector& vector) {
        if (!index.ids) {
            position = vector.first;
            return vector.all();
        }
        unsigned members = 0;
        while (next < index.count && index.ids[next] < vector.first) ++next;
        position = next;
        for (; next < index.count && index.ids[next] < vector.first + vector.n; ++next)
            members |= 1u << (index.ids[next] - vector.first);
        return members;
    }
};

// The members' totals, side by side.
static inline void write_compact(float* to, const double* totals, unsigned members) {
    for (int l = 0; l < W; ++l)
        if (members >> l & 1u) *to++ = float(totals[l]);
}

// body(vectors in ascending order) for all channels, by threads; `work` of a channel.
template <class Body>
static void each_channel_vector(int64_t channels, int64_t work, Body&& body) {
    split((channels + W - 1) / W, work * W, [=](int64_t begin, int64_t end) {
        body([&](const auto& visit) {
            for (int64_t w = begin; w < end; ++w) visit(ChannelVector{w * W, int(least(W, channels - w * W))});
        });
    });
}

constexpr int64_t EXAMPLES = 128;  // summed in float lanes at a time

// totals[k]: each lane's sum of what add(example, sums) adds to sums[k], over all examples.
template <int N, class Add>
static inline void sum_examples(int64_t batch, const Add& add_to, double (*totals)[W]) {
    for (int k = 0; k < N; ++k)
        for (int l = 0; l < W; ++l) totals[k][l] = 0;
    for (int64_t from = 0; from < batch; from += EXAMPLES) {
        vf sums[N];
        for (int k = 0; k < N; ++k) sums[k] = zero();
        for (int64_t b = from, end = least(batch, from + EXAMPLES); b < end; ++b) add_to(b, sums);
        for (int k = 0; k < N; ++k) {
            float lanes[W];
            store(lanes, sums[k]);
            for (int l = 0; l < W; ++l) totals[k][l] += double(lanes[l]);
        }
    }
}
