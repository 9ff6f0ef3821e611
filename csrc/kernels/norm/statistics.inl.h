// The statistics of batch and group normalisation, and the loops over channels, groups and planes.
//
// Statistics are summed plane by plane in float lanes and across planes in float64. What is done to a plane is passed
// in: by plain.inl.h, or with ReLU and pooling by relu.inl.h.

// One channel of one sample: z = weight * xhat + bias with xhat = (x - mean) * inv_std.
struct Affine {
    float mean, inv_std, weight, bias;
};

// Its backward pass: dx = gain * dz - offset - slope * xhat.
struct AffineGradient {
    float gain, offset, slope;
};

// Sums over planes of dz and of dz * xhat: the gradients of bias and weight, and what its AffineGradient is made of.
struct NormSums {
    double dz = 0, dz_xhat = 0;
};

// Of a channel with `count` values.
static inline AffineGradient affine_gradient(float weight, float inv_std, const NormSums& total, double count) {
    const double gain = double(weight) * double(inv_std);
    return AffineGradient{float(gain), float(gain * total.dz / count), float(gain * total.dz_xhat / count)};
}

static inline float inverse_std(double variance, float eps) { return float(1.0 / std::sqrt(variance + double(eps))); }

// What the ends of a plane's sums cost, in elements: planes of few elements are work, too.
constexpr int64_t PLANE_COST = 64;

constexpr int64_t ABREAST = 16;  // channels walked side by side, image by image, ...
constexpr int64_t KEPT_PLANES =
    32768;  // ... where one channel's planes are more floats than stay in L2 between two walks

template <int64_t COUNT>
struct Abreast {
    static constexpr int64_t most = COUNT;
};

// Where several planes are summed abreast. The order of sums of four lanes stays, because runs of the scalar tier go on
// with the bits of earlier releases.
constexpr bool SUMS_FROM_LAST = W > 4;

// walk(Abreast<most>, begin, end) over [first, last), at most that many at a time: one, with all that is known of it at
// hand, or several, so that memory is read in order (.8 of the time on [128, 6, 32, 32], 1.1 on [128, 50, 6, 6]).
// Several leave L2 in part: statistics are summed from the last image back, which was written last, and gradients are
// written from the last image back, whose sums were read last.
template <class Walk>
static void each_abreast(int64_t first, int64_t last, int64_t floats, Walk&& walk) {
    if (floats <= KEPT_PLANES)
        for (; first < last; ++first) walk(Abreast<1>{}, first, first + 1);
    else
        for (; first < last; first += ABREAST) walk(Abreast<ABREAST>{}, first, least(first + ABREAST, last));
}

// Planes first, first + step, ... of one channel. Few enough floats are summed in float lanes at a time.
struct PlaneRun {
    int64_t first, count, step;
};

constexpr int64_t stretch = 4096;  // floats summed in float lanes at a time

// visit(run) for a channel's planes of all images: several where they are small.
template <class Visit>
static inline void each_run(int64_t channel, int64_t batch, int64_t channels, int64_t inner, const Visit& visit) {
    const int64_t most = inner < stretch ? stretch / (inner ? inner : 1) : 1;
    for (int64_t b = 0; b < batch; b += most) visit(PlaneRun{b * channels + channel, least(most, batch - b), channels});
}

// visit(at) with where each plane of a run starts.
template <class Visit>
static inline void each_plane_of(const PlaneRun& run, int64_t inner, const Visit& visit) {
    for (int64_t k = 0; k < run.count; ++k) visit((run.first + k * run.step) * inner);
}

// What a batch's moments become: the running ones move, the batch's own are kept. mean may be NULL.
struct BatchStatistics {
    const float *weight, *bias;
    float eps, momentum;
    float *running_mean, *running_var, *mean, *inv_std;

    Affine of(int64_t c, const Moments& moments) const {
        const double variance = moments.variance(), unbiased = variance * (moments.count / (moments.count - 1));
        inv_std[c] = inverse_std(variance, eps);
        if (mean) mean[c] = float(moments.mean());
        running_mean[c] = float((1.0 - double(momentum)) * running_mean[c] + double(momentum) * moments.mean());
        running_var[c] = float((1.0 - double(momentum)) * running_var[c] + double(momentum) * unbiased);
        return Affine{float(moments.mean()), inv_std[c], weight[c], bias[c]};
    }
};

// plane(run, affine) for all planes, b * channels + c, after the statistics of their channel.
template <class Plane>
static void batchnorm_planes(const float* x, int64_t batch, int64_t channels, int64_t inner,
                             const BatchStatistics& statistics, Plane&& plane) {
    const auto walk = [&](auto channels_abreast, int64_t first, int64_t end) {
        constexpr int64_t most = decltype(channels_abreast)::most;
        const int64_t last = most == 1 ? first + 1 : end;
        Moments all[most];
        Affine affine[most];
        for (int64_t c = first; c < last; ++c) all[c - first] = Moments(x + c * inner, inner);
        if (most == 1)
            each_run(first, batch, channels, inner, [&](const PlaneRun& r) {
                all[0].add_planes(x + r.first * inner, r.count, r.step * inner, inner);
            });
        else
            for (int64_t n = 0; n < batch; ++n) {
                const int64_t b = SUMS_FROM_LAST ? batch - 1 - n : n;
                for (int64_t c = first; c < last; ++c) all[c - first].add_plane(x + (b * channels + c) * inner, inner);
            }
        for (int64_t c = first; c < last; ++c) affine[c - first] = statistics.of(c, all[c - first]);
        if (most == 1) plane(PlaneRun{first, batch, channels}, affine[0]);
        else
            for (int64_t b = 0; b < batch; ++b)
                for (int64_t c = first; c < last; ++c) plane(PlaneRun{b * channels + c, 1, 0}, affine[c - first]);
    };
    split(channels, batch * (inner + PLANE_COST),
          [=](int64_t first, int64_t last) { each_abreast(first, last, batch * inner, walk); });
}

// Where in the compact order of `outs` a channel sits, for channels asked in ascending order; -1 if it is not there.
struct Position {
    efl_index outs;
    int64_t next;

    inline int64_t of(int64_t channel) {
        if (!outs.ids) return channel;
        while (next < outs.count && outs.ids[next] < channel) ++next;
        return next < outs.count && outs.ids[next] == channel ? next : -1;
    }
};

// sum(run, affine, &sums) for all planes of a needed channel, then write(run, affine, gradient). mean and bias may be
// NULL: then 0.
template <class Sum, class Write>
static void batchnorm_gradients(const float* weight, const float* bias, const float* mean, const float* inv_std,
                                int64_t batch, int64_t channels, int64_t inner, efl_index channels_needed,
                                efl_index outs, float* dweight, float* dbias, Sum&& sum, Write&& write) {
    const double n = double(batch * inner);
    const int64_t work = batch * (inner + PLANE_COST);
    split(count_of(channels_needed, channels), work, [=](int64_t first_needed, int64_t last_needed) {
        Position position{outs, 0};
        each_abreast(first_needed, last_needed, batch * inner, [&](auto channels_abreast, int64_t first, int64_t end) {
            constexpr int64_t most = decltype(channels_abreast)::most;
            const int64_t last = most == 1 ? first + 1 : end;
            Affine affine[most];
            NormSums sums[most];
            AffineGradient back[most];
            for (int64_t k = first; k < last; ++k) {
                const int64_t c = id_of(channels_needed, k);
                affine[k - first] = Affine{mean ? mean[c] : 0, inv_std[c], weight[c], bias ? bias[c] : 0};
            }
            if (most == 1)
                each_run(id_of(channels_needed, first), batch, channels, inner,
                         [&](const PlaneRun& run) { sum(run, affine[0], &sums[0]); });
            else
                for (int64_t b = 0; b < batch; ++b)
                    for (int64_t k = first; k < last; ++k)
                        sum(PlaneRun{b * channels + id_of(channels_needed, k), 1, 0}, affine[k - first],
                            &sums[k - first]);
            for (int64_t k = first; k < last; ++k) {
                const int64_t c = id_of(channels_needed, k), j = position.of(c);
                const NormSums& total = sums[k - first];
                back[k - first] = affine_gradient(weight[c], inv_std[c], total, n);
                if (j < 0) continue;
                dweight[j] = float(total.dz_xhat);
                dbias[j] = float(total.dz);
            }
            if (most == 1) write(PlaneRun{id_of(channels_needed, first), batch, channels}, affine[0], back[0]);
            else
                for (int64_t b = batch; b-- > 0;)
                    for (int64_t k = first; k < last; ++k)
                        write(PlaneRun{b * channels + id_of(channels_needed, k), 1, 0}, affine[k - first],
                              back[k - first]);
        });
    });
}

// group(g, mean) for every group of `size` floats, after its statistics; `work` to do for each. mean may be NULL.
template <class Group>
static void each_normal_group(const float* x, int64_t count, int64_t size, int64_t work, float eps, float* mean,
                              float* inv_std, const Group& group) {
    if (size == 0) return;
    split(count, work, [=](int64_t first, int64_t last) {
        for (int64_t g = first; g < last; ++g) {
            const float* values = x + g * size;
            Moments all(values, least(stretch, size));
            for (int64_t at = 0; at < size; at += stretch) all.add_plane(values + at, least(stretch, size - at));
            inv_std[g] = inverse_std(all.variance(), eps);
            if (mean) mean[g] = float(all.mean());
            group(g, float(all.mean()));
        }
    });
}

// plane(p, affine) for every plane, after the statistics of its sample's group. mean may be NULL.
template <class Plane>
static void groupnorm_planes(const float* x, const float* weight, const float* bias, int64_t batch, int64_t channels,
                             int64_t inner, int64_t groups, float eps, float* mean, float* inv_std, Plane&& plane) {
    const int64_t size = channels / groups, work = size * (inner + PLANE_COST);
    each_normal_group(x, batch * groups, size * inner, work, eps, mean, inv_std, [&](int64_t g, float centre) {
        for (int64_t k = 0; k < size; ++k) {
            const int64_t c = g % groups * size + k;
            plane(PlaneRun{g * size + k, 1, 0}, Affine{centre, inv_std[g], weight[c], bias[c]});
        }
    });
}

// The sums of each plane, kept for dweight and dbias, then the gradients of its group. mean and bias may be NULL: then
// 0.
template <class Sum, class Write>
static efl_status groupnorm_gradients(const float* weight, const float* bias, const float* mean, const float* inv_std,
                                      int64_t batch, int64_t channels, int64_t inner, int64_t groups,
                                      efl_index groups_needed, efl_index outs, float* dweight, float* dbias, Sum&& sum,
                                      Write&& write) {
    const int64_t size = channels / groups, needed = count_of(groups_needed, groups);
    NormSums* sums = static_cast<NormSums*>(scratch(batch * channels * int64_t(sizeof(NormSums))));
    if (!sums) return EFL_NO_MEMORY;
    split(batch * needed, size * (inner + PLANE_COST), [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / needed, g = b * groups + id_of(groups_needed, i % needed),
                          channel = g % groups * size;
            const auto affine = [&](int64_t k) {
                return Affine{mean ? mean[g] : 0, inv_std[g], weight[channel + k], bias ? bias[channel + k] : 0};
            };
            double dz = 0, dz_xhat = 0;
            for (int64_t k = 0; k < size; ++k) {
                NormSums& one = sums[g * size + k] = NormSums{};
                sum(PlaneRun{g * size + k, 1, 0}, affine(k), &one);
                dz += weight[channel + k] * one.dz;
                dz_xhat += weight[channel + k] * one.dz_xhat;
            }
            const double s = inv_std[g], n = double(size * inner);
            for (int64_t k = 0; k < size; ++k)
                write(PlaneRun{g * size + k, 1, 0}, affine(k),
                      AffineGradient{float(s * weight[channel + k]), float(s * dz / n), float(s * dz_xhat / n)});
        }
    });
    for (int64_t j = 0; j < count_of(outs, channels); ++j) {
        NormSums total;
        for (int64_t b = 0; b < batch; ++b) {
            total.dz += sums[b * channels + id_of(outs, j)].dz;
            total.dz_xhat += sums[b * channels + id_of(outs, j)].dz_xhat;
        }
        dweight[j] = float(total.dz_xhat);
        dbias[j] = float(total.dz);
    }
    return EFL_OK;
}
