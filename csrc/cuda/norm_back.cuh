// What the backward passes of normalisations share: the gradient of the output that a rectifier passes, its sums, and
// dx of them.
//
//     dx = weight inv_std dz - inv_std / n (S + xhat T),  S and T the sums of weight dz and weight dz xhat
//
// over the n values of a channel or a group. x is that of the forward pass, from which xhat is found again; or, where
// `mean` is null, xhat.
#pragma once
#include "statistics.cuh"

namespace norms {

// There are three kinds of runs: a channel that was normalised as one; a group of channels, whose weights are by_row;
// and a channel whose images were normalised by their groups, by_image, of which only sums are wanted.
EFL_DEVICE int statistic_of(const BackArgs& a, const Part& part) { return part.number * int(a.runs.lanes) + part.lane; }

EFL_DEVICE Affine affine_of_parameters(const BackArgs& a, int statistic, int channel) {
    const bool is_given = a.mean != nullptr;
    return {is_given ? a.mean[statistic] : 0, is_given ? a.inv_std[statistic] : 1, a.weight[channel],
            a.bias ? a.bias[channel] : 0};
}

// What the values of a run share, and with it what belongs to one of them.
EFL_DEVICE Affine fixed_affine(const BackArgs& a, const Part& part) {
    const int statistic = a.by_image ? part.id / int(a.share) * int(a.stat_lanes) : statistic_of(a, part);
    return affine_of_parameters(a, statistic, part.id * int(a.runs.size));
}

EFL_DEVICE Affine affine_at(const BackArgs& a, const Part& part, Affine f, int row, int column) {
    if (a.by_row) {
        const int channel = part.id * int(a.runs.size) + row;
        f.weight = a.weight[channel];
        if (a.bias) f.bias = a.bias[channel];
    }
    if (a.by_image && a.mean) {
        const int lanes = int(a.stat_lanes), group = row * int(a.groups) + part.id / int(a.share);
        const int statistic = group * lanes + (lanes > 1 ? column % lanes : 0);
        f.mean = a.mean[statistic];
        f.inv_std = a.inv_std[statistic];
    }
    return f;
}

// The part of dy that a rectifier, if there is one, lets back.
EFL_DEVICE float passed(const BackArgs& a, float z, float dy) {
    return a.rectifies == 0 || (z > 0 && z < float(a.most)) ? dy : 0;
}

struct GradSums {
    float dz, dz_xhat;
};

EFL_DEVICE void add_grad(const BackArgs& a, GradSums& sum, const Affine& f, float dz, float normal) {
    const float grad = a.by_row ? f.weight * dz : dz;
    sum.dz += grad;
    sum.dz_xhat = fmaf(grad, normal, sum.dz_xhat);
}

// Where the sums of a run, or of a block's piece of it, go.
EFL_DEVICE void leave_sums(const BackArgs& a, const Part& part, Pair sum) {
    if (!part.exists || part.member > 0) return;
    if (a.leaves) {
        a.leaves[int(blockIdx.y) * runs_of(a.runs) + part.run] = sum;
    } else {
        a.dweight[part.run] = float(sum.second);
        a.dbias[part.run] = float(sum.first);
    }
}

// The position of an id among outs, -1 if it is not among them.
EFL_DEVICE int position_among(const Ids& outs, int id) {
    if (!outs.list) return outs.count > 0 ? id : -1;  // an empty list is null, too
    int low = 0;
    EFL_ROLLED
    for (int high = int(outs.count); low < high;) {
        const int middle = (low + high) / 2;
        if (outs.list[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < int(outs.count) && outs.list[low] == id ? low : -1;
}

// dx = gain dz - offset - slope xhat, where a group's gain is yet to be multiplied by the channel's weight.
struct Way {
    float gain, offset, slope;
};

// Of each thread's run, whose sums are known. A channel's first thread writes its gradients. ways [RUN_THREADS].
EFL_DEVICE Way way_of(const BackArgs& a, const Part& part, Pair sum, Way* ways) {
    if (part.exists && part.member == 0) {
        const double inv_std = a.inv_std[statistic_of(a, part)];
        const double gain = a.by_row ? inv_std : a.weight[part.id] * inv_std, mean = gain * a.per_value;
        ways[part.slot] = {float(gain), float(mean * sum.first), float(mean * sum.second)};
        const int out = !a.by_row && blockIdx.y == 0 ? position_among(a.outs, part.id) : -1;
        if (out >= 0) {
            a.dweight[out] = float(sum.second);
            a.dbias[out] = float(sum.first);
        }
    }
    barrier();
    return ways[part.slot];
}

EFL_DEVICE float gradient(const BackArgs& a, const Way& way, const Affine& f, float dz, float normal) {
    const float gain = a.by_row ? way.gain * f.weight : way.gain;
    return fmaf(gain, dz, -fmaf(way.slope, normal, way.offset));
}

EFL_DEVICE bool is_for_sums(const BackArgs& a) { return a.leaves || !a.dx; }

}  // namespace norms
