// Batch, group and layer normalisation, with a rectifier or without. Contracts: edgefl/kernels/table.py. What a layer
// normalisation is over, the channels of a position, is a group of all channels with positions for lanes.
#pragma once
#include "norm_back.cuh"
#include "statistics.cuh"

namespace norms {

// A value of x and what belongs to it.
struct Read {
    float x;
    Affine f;
};

EFL_KERNEL(norm_forward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Affine found[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Affine known = normalisation_of(a, part, shared, found);
    if (!part.exists || a.leaves) return;
    const Affine f = with_channel(a, part, known, 0);
    const int inner = int(a.runs.inner);
    const Address address = address_of(a.runs, part, inner);
    const float most = float(a.most);
    each_position<4>(
        walk_of(a.runs, part, inner),
        [&](int row, int column) {
            return Read{a.x[position_at(address, row, column)], a.by_row ? with_channel(a, part, f, row) : f};
        },
        [&](int row, int column, const Read& read) {
            const int position = position_at(address, row, column);
            const float normal = normal_of(read.f, read.x), z = affine_of(read.f, normal);
            if (a.xhat) a.xhat[position] = normal;
            a.y[position] = a.rectifies ? rectified(z, 0, most) : z;
        });
}

// ---- back ---------------------------------------------------------------------------------------------------------

// A value's gradient of the output, and what the value was normalised by.
struct Sent {
    float dy, x;
    Affine f;
};

EFL_DEVICE Sent sent_at(const BackArgs& a, const Part& part, const Affine& f, int position, int row, int column) {
    return {a.dy[position], a.x[position], affine_at(a, part, f, row, column)};
}

EFL_DEVICE Pair grads_of(const BackArgs& a, const Part& part) {
    if (!part.exists) return {0, 0};
    const Address address = address_of(a.runs, part, int(a.runs.inner));
    const Affine f = fixed_affine(a, part);
    GradSums sum = {0, 0};
    each_position<4>(
        walk_of(a.runs, part, int(a.runs.inner)),
        [&](int row, int column) { return sent_at(a, part, f, position_at(address, row, column), row, column); },
        [&](int, int, const Sent& sent) {
            const float normal = normal_of(sent.f, sent.x);
            add_grad(a, sum, sent.f, passed(a, affine_of(sent.f, normal), sent.dy), normal);
        });
    return {sum.dz, sum.dz_xhat};
}

EFL_KERNEL(norm_backward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Way ways[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Pair seen = a.left ? pieces_of(a.runs, part, a.left) : grads_of(a, part);
    const Pair sum = team_sum(a.runs, part, seen, shared);
    if (is_for_sums(a)) return leave_sums(a, part, sum);
    const Way way = way_of(a, part, sum, ways);
    if (!part.exists) return;
    const Address address = address_of(a.runs, part, int(a.runs.inner));
    const Affine f = fixed_affine(a, part);
    each_position<4>(
        walk_of(a.runs, part, int(a.runs.inner)),
        [&](int row, int column) { return sent_at(a, part, f, position_at(address, row, column), row, column); },
        [&](int row, int column, const Sent& sent) {
            const float normal = normal_of(sent.f, sent.x), dz = passed(a, affine_of(sent.f, normal), sent.dy);
            a.dx[position_at(address, row, column)] = gradient(a, way, sent.f, dz, normal);
        });
}

// The gradients of outs, of what blocks have left of their pieces.
EFL_KERNEL(norm_gradients, 256) {
    const int run = int(thread_of_grid()), count = int(a.outs.count);
    if (run >= count) return;
    Pair sum = {0, 0};
    EFL_ROLLED
    for (int i = 0; i < int(a.runs.pieces); ++i) add_to(sum, a.left[i * count + run]);
    a.dweight[run] = float(sum.second);
    a.dbias[run] = float(sum.first);
}

}  // namespace norms
