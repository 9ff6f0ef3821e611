// Mean and variance of runs, and what normalisations make of them: x in, y out. The way back is in norm_back.cuh.
//
// A thread sums its values in float about the first of them, and the threads' sums are added in float64 about the run's
// first value: equal values give a variance of 0, and a mean far from 0 costs nothing.
#pragma once
#include "divisor.cuh"
#include "elementwise.cuh"
#include "runs.cuh"

namespace norms {
using namespace runs;

// z = weight * xhat + bias with xhat = (x - mean) * inv_std.
struct Affine {
    float mean, inv_std, weight, bias;
};

EFL_DEVICE float normal_of(const Affine& f, float x) { return (x - f.mean) * f.inv_std; }
EFL_DEVICE float affine_of(const Affine& f, float normal) { return fmaf(f.weight, normal, f.bias); }

// What one thread has seen of a run, WIDTH neighbours at a time.
template <int WIDTH>
EFL_DEVICE Pair moments_of_cells(const Runs& runs, const Part& part, const float* x, float origin) {
    const Address address = address_of_cells<WIDTH>(runs, part);
    const Walk walk = walk_of(runs, part, int(runs.inner) / WIDTH);
    if (walk.left == 0) return {0, 0};
    const float near = x[position_at(address, walk.row, walk.column)];
    float sum = 0, squares = 0;
    each_position<4>(
        walk, [&](int row, int column) { return values_at<WIDTH>(x, position_at(address, row, column)); },
        [&](int, int, const Values<WIDTH>& values) {
            EFL_UNROLL
            for (int i = 0; i < WIDTH; ++i) {
                const float d = values.of[i] - near;
                sum += d;
                squares = fmaf(d, d, squares);
            }
        });
    const double away = double(near) - double(origin), count = WIDTH * walk.left;
    return {sum + count * away, squares + away * (2.0 * sum + count * away)};
}

EFL_DEVICE Pair moments_of(const Runs& runs, const Part& part, const float* x, float origin) {
    return takes_fours(runs, x) ? moments_of_cells<4>(runs, part, x, origin)
                                : moments_of_cells<1>(runs, part, x, origin);
}

EFL_DEVICE float origin_of(const Runs& runs, const Part& part, const float* x) {
    return part.exists && runs.rows * runs.inner > 0 ? x[address_of(runs, part, int(runs.inner)).base] : 0;
}

EFL_DEVICE float inverse_deviation(double variance, double eps) { return 1.0f / sqrtf(float(variance + eps)); }

// Of a whole run; its first thread keeps what is to be kept.
EFL_DEVICE Affine statistics_of(const ForwardArgs& a, const Part& part, float origin, Pair sum) {
    const double away = sum.first * a.per_value, mean = origin + away;
    const double spread = sum.second * a.per_value - away * away, variance = spread < 0 ? 0 : spread;
    const Affine f = {float(mean), inverse_deviation(variance, a.eps), 0, 0};
    if (blockIdx.y > 0) return f;
    const int position = part.number * int(a.runs.lanes) + part.lane;
    a.inv_std[position] = f.inv_std;
    if (a.mean) a.mean[position] = f.mean;
    if (a.running_mean) {
        const double old = 1.0 - a.momentum;
        a.running_mean[part.id] = float(old * a.running_mean[part.id] + a.momentum * mean);
        a.running_var[part.id] = float(old * a.running_var[part.id] + a.momentum * (variance * a.unbiased));
    }
    return f;
}

EFL_DEVICE void leave_moments(const ForwardArgs& a, const Part& part, float origin, Pair sum) {
    if (!part.exists || part.member > 0) return;
    a.leaves[int(blockIdx.y) * runs_of(a.runs) + part.run] = sum;
    if (blockIdx.y == 0) a.origins[part.run] = origin;
}

// Mean and inverse deviation of each thread's run. shared, found [RUN_THREADS].
EFL_DEVICE Affine normalisation_of(const ForwardArgs& a, const Part& part, Pair* shared, Affine* found) {
    const bool is_first = part.exists && part.member == 0, is_left = a.left != nullptr;
    if (a.inv_std) {
        const float origin = !part.exists ? 0 : is_left ? a.origins[part.run] : origin_of(a.runs, part, a.x);
        const Pair seen = is_left ? pieces_of(a.runs, part, a.left) : moments_of(a.runs, part, a.x, origin);
        const Pair sum = team_sum(a.runs, part, seen, shared);
        if (a.leaves) leave_moments(a, part, origin, sum);
        else if (is_first) found[part.slot] = statistics_of(a, part, origin, sum);
    } else if (is_first) {
        found[part.slot] = {a.running_mean[part.id], inverse_deviation(a.running_var[part.id], a.eps), 0, 0};
    }
    barrier();
    return found[part.slot];
}

// With weight and bias: of the run's channel, or of its row's.
EFL_DEVICE Affine with_channel(const ForwardArgs& a, const Part& part, Affine f, int row) {
    const int channel = part.id * int(a.runs.size) + row;
    f.weight = a.weight[channel];
    f.bias = a.bias[channel];
    return f;
}

}  // namespace norms
