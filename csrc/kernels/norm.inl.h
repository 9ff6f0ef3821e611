// Batch and group normalisation, forward and backward.
//
// Statistics are summed plane by plane in float lanes and across planes in float64. xhat is what the backward pass reads, so it
// is stored once and nothing else is.

// y = weight * (x - mean) * inv_std + bias; xhat may be NULL.
static inline void normalise(const float* x, int64_t n, float mean, float inv_std, float weight, float bias, float* y, float* xhat) {
    const vf m = set1(mean), s = set1(inv_std), w = set1(weight), c = set1(bias);
    int64_t i = 0;
    for (; i + W <= n; i += W) {
        const vf h = mul(sub(load(x + i), m), s);
        if (xhat) store(xhat + i, h);
        store(y + i, fma(w, h, c));
    }
    if (i == n) return;
    const int rest = int(n - i);
    const vf h = mul(sub(load_n(x + i, rest), m), s);
    if (xhat) store_n(xhat + i, h, rest);
    store_n(y + i, fma(w, h, c), rest);
}

// dx = a dy - b - c xhat
static inline void denormalise(const float* dy, const float* xhat, int64_t n, float a, float b, float c, float* dx) {
    const vf va = set1(a), vb = set1(-b), vc = set1(-c);
    int64_t i = 0;
    for (; i + W <= n; i += W) store(dx + i, fma(va, load(dy + i), fma(vc, load(xhat + i), vb)));
    const int rest = int(n - i);
    if (rest) store_n(dx + i, fma(va, load_n(dy + i, rest), fma(vc, load_n(xhat + i, rest), vb)), rest);
}

static inline float inverse_std(double variance, float eps) { return float(1.0 / std::sqrt(variance + double(eps))); }

static efl_status batchnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch, efl_int64 channels,
                                        efl_int64 inner, float eps, float momentum, float* running_mean, float* running_var, float* y,
                                        float* xhat, float* inv_std) {
    split(channels, batch * inner, [&](int64_t first, int64_t last) {
        for (int64_t c = first; c < last; ++c) {
            Moments all(x + c * inner, inner);
            for (int64_t b = 0; b < batch; ++b) all.add_plane(x + (b * channels + c) * inner, inner);
            const double mean = all.mean(), variance = all.variance(), unbiased = variance * (all.count / (all.count - 1));
            inv_std[c] = inverse_std(variance, eps);
            running_mean[c] = float((1.0 - double(momentum)) * running_mean[c] + double(momentum) * mean);
            running_var[c] = float((1.0 - double(momentum)) * running_var[c] + double(momentum) * unbiased);
            for (int64_t b = 0; b < batch; ++b) {
                const int64_t plane = (b * channels + c) * inner;
                normalise(x + plane, inner, float(mean), inv_std[c], weight[c], bias[c], y + plane, xhat + plane);
            }
        }
    });
    return EFL_OK;
}

static efl_status batchnorm_eval_f32(const float* x, const float* weight, const float* bias, const float* running_mean,
                                     const float* running_var, efl_int64 batch, efl_int64 channels, efl_int64 inner, float eps,
                                     float* y) {
    split(batch * channels, inner, [&](int64_t first, int64_t last) {
        for (int64_t p = first; p < last; ++p) {
            const int64_t c = p % channels;
            normalise(x + p * inner, inner, running_mean[c], inverse_std(running_var[c], eps), weight[c], bias[c], y + p * inner, nullptr);
        }
    });
    return EFL_OK;
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

static efl_status batchnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std, efl_int64 batch,
                                         efl_int64 channels, efl_int64 inner, efl_index channels_needed, efl_index outs, float* dx,
                                         float* dweight, float* dbias) {
    const double n = double(batch * inner);
    split(count_of(channels_needed, channels), batch * inner, [&](int64_t first, int64_t last) {
        Position position{outs, 0};
        for (int64_t k = first; k < last; ++k) {
            const int64_t c = id_of(channels_needed, k);
            double sum_dy = 0, sum_dy_xhat = 0;
            for (int64_t b = 0; b < batch; ++b) {
                const int64_t plane = (b * channels + c) * inner;
                plane_sums(dy + plane, xhat + plane, inner, &sum_dy, &sum_dy_xhat);
            }
            const double a = double(weight[c]) * double(inv_std[c]);
            for (int64_t b = 0; b < batch; ++b) {
                const int64_t plane = (b * channels + c) * inner;
                denormalise(dy + plane, xhat + plane, inner, float(a), float(a * sum_dy / n), float(a * sum_dy_xhat / n), dx + plane);
            }
            const int64_t j = position.of(c);
            if (j < 0) continue;
            dweight[j] = float(sum_dy_xhat);
            dbias[j] = float(sum_dy);
        }
    });
    return EFL_OK;
}

constexpr int64_t stretch = 4096;  // floats of a group summed in float lanes at a time

static efl_status groupnorm_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch, efl_int64 channels,
                                        efl_int64 inner, efl_int64 groups, float eps, float* y, float* xhat, float* inv_std) {
    const int64_t size = channels / groups;
    if (size * inner == 0) return EFL_OK;
    split(batch * groups, size * inner, [&](int64_t first, int64_t last) {
        for (int64_t g = first; g < last; ++g) {
            const float* group = x + g * size * inner;
            Moments all(group, least(stretch, size * inner));
            for (int64_t at = 0; at < size * inner; at += stretch) all.add_plane(group + at, least(stretch, size * inner - at));
            const float mean = float(all.mean());
            inv_std[g] = inverse_std(all.variance(), eps);
            for (int64_t k = 0; k < size; ++k) {
                const int64_t c = g % groups * size + k, plane = (g * size + k) * inner;
                normalise(x + plane, inner, mean, inv_std[g], weight[c], bias[c], y + plane, xhat ? xhat + plane : nullptr);
            }
        }
    });
    return EFL_OK;
}

// The sums of one plane, kept between the two passes of the group backward.
struct PlaneSums {
    double dy, dy_xhat;
};

// dx of one sample's group, from the sums of its planes.
static void groupnorm_backward_group(const float* dy, const float* xhat, const float* weight, float inv_std, int64_t size, int64_t inner,
                                     const PlaneSums* sums, float* dx) {
    double mean_dy = 0, mean_dy_xhat = 0;
    for (int64_t k = 0; k < size; ++k) {
        mean_dy += weight[k] * sums[k].dy;
        mean_dy_xhat += weight[k] * sums[k].dy_xhat;
    }
    const double n = double(size * inner), s = inv_std;
    const float b = float(s * mean_dy / n), c = float(s * mean_dy_xhat / n);
    for (int64_t k = 0; k < size; ++k)
        denormalise(dy + k * inner, xhat + k * inner, inner, float(s * weight[k]), b, c, dx + k * inner);
}

static efl_status groupnorm_backward_f32(const float* dy, const float* xhat, const float* weight, const float* inv_std, efl_int64 batch,
                                         efl_int64 channels, efl_int64 inner, efl_int64 groups, efl_index groups_needed, efl_index outs,
                                         float* dx, float* dweight, float* dbias) {
    const int64_t size = channels / groups, needed = count_of(groups_needed, groups);
    PlaneSums* sums = static_cast<PlaneSums*>(shared_scratch(batch * channels * int64_t(sizeof(PlaneSums))));
    if (!sums) return EFL_NO_MEMORY;
    split(batch * needed, size * inner, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t b = i / needed, g = id_of(groups_needed, i % needed), plane = b * channels + g * size;
            for (int64_t p = plane; p < plane + size; ++p) {
                sums[p] = PlaneSums{0, 0};
                plane_sums(dy + p * inner, xhat + p * inner, inner, &sums[p].dy, &sums[p].dy_xhat);
            }
            groupnorm_backward_group(dy + plane * inner, xhat + plane * inner, weight + g * size, inv_std[b * groups + g], size, inner,
                                     sums + plane, dx + plane * inner);
        }
    });
    for (int64_t j = 0; j < count_of(outs, channels); ++j) {
        PlaneSums total{0, 0};
        for (int64_t b = 0; b < batch; ++b) {
            const PlaneSums& one = sums[b * channels + id_of(outs, j)];
            total.dy += one.dy;
            total.dy_xhat += one.dy_xhat;
        }
        dweight[j] = float(total.dy_xhat);
        dbias[j] = float(total.dy);
    }
    return EFL_OK;
}
