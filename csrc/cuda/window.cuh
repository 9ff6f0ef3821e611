// A convolution's window on a device: which cells of the source each cell of the target reads, one axis at a time, and
// which of the chosen channels belong to a group. Forward the source is x and the target y. Backward they are dy and
// dx: cells of dx that leave the same remainder of the stride, a phase, read the same taps, each from its own position.
#pragma once
#include "portable.cuh"

namespace convolution {

// Cell c of a phase is cell first_cell + c cell_step of the target. Its tap t, which is tap first_tap + t tap_step of
// the kernel, reads cell first + c step + t apart of the source.
struct Axis {
    int cells, cell_step, first_cell;
    int taps, tap_step, first_tap;
    int first, step, apart;
};

EFL_DEVICE Axis forward_axis(const Extent& e) {
    return {int(e.target), 1, 0, int(e.kernel), 1, 0, -int(e.padding), int(e.stride), int(e.dilation)};
}

EFL_DEVICE Axis backward_axis(const Extent& e, int phase) {
    const int stride = int(e.stride), dilation = int(e.dilation), kernel = int(e.kernel), tap_step = int(e.tap_step);
    const int reach = phase + int(e.padding), cells = (int(e.target) - phase + stride - 1) / stride;
    int tap = 0;
    while (tap < smaller(kernel, tap_step) && (reach - tap * dilation) % stride != 0) ++tap;
    const bool has_taps = tap < smaller(kernel, tap_step);
    const int taps = has_taps ? (kernel - tap + tap_step - 1) / tap_step : 0;
    const int first = (reach - tap * dilation) / stride, apart = -(tap_step * dilation) / stride;
    return {cells, stride, phase, taps, tap_step, tap, first, 1, apart};
}

struct Range {
    int first, last;
};

// Finds which of sorted ids lie from `low` to before `high`: `found`, in shared memory, holds after a barrier.
EFL_DEVICE void find_range(const Ids& ids, int low, int high, Range& found) {
    const int count = int(ids.count);
    if (!ids.list) {  // all, or none
        if (threadIdx.x == 0) found = {smaller(low, count), smaller(high, count)};
        return;
    }
    for (int i = int(threadIdx.x); i <= count; i += int(blockDim.x)) {
        const bool is_end = i == count;
        const int before = i == 0 ? -1 : ids.list[i - 1];
        if (before < low && (is_end || ids.list[i] >= low)) found.first = i;
        if (before < high && (is_end || ids.list[i] >= high)) found.last = i;
    }
}

// And those of a group out of `all`, of so many channels.
EFL_DEVICE void find_group(const Ids& ids, int group, Size all, Size channels, Range& found) {
    const int size = int(channels / all);
    if (all > 1) return find_range(ids, group * size, (group + 1) * size, found);
    if (threadIdx.x == 0) found = {0, int(ids.count)};
}

// Takes the lowest digit, of base `count`, off a number.
EFL_DEVICE int taken(int& number, Size count) {
    const int digit = number % int(count);
    number /= int(count);
    return digit;
}

// What a block works on, in its shared memory, where it costs no registers: the axes as its phase has them, its group's
// channels, and its tile. weights: before the group's, which count for rows backward, for depths forward.
struct Work {
    Axis h, w;
    Range rows, depths;
    int first_row, first_column, split, row_weights, depth_weights;
};

EFL_DEVICE void find_axes(const WindowArgs& a, int phase, Work& found) {
    if (threadIdx.x > 0) return;
    found.h = a.is_back ? backward_axis(a.h, phase / int(a.w.stride)) : forward_axis(a.h);
    found.w = a.is_back ? backward_axis(a.w, phase % int(a.w.stride)) : forward_axis(a.w);
}

}  // namespace convolution
