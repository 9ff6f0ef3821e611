// How a masked convolution's structure lies in memory, which follows from the layer; see sparse_convolution.h.
#include "sparse_convolution.h"

#include <algorithm>

namespace efl {

SparseAxis::SparseAxis(efl_int64 size, efl_int64 kernel, efl_int64 stride, efl_int64 pad, efl_int64 dil,
                       bool transposed)
    : transposed(transposed), source(size), positions(windows(size, kernel, stride, pad, dil)), step(stride),
      start(-pad), kernel(kernel), stride(stride), pad(pad), dil(dil),
      source_phases(std::min(stride, (kernel - 1) * dil + 1)), row_phases(1), extent((kernel - 1) * dil / stride) {
    if (!transposed) return;
    source = positions, positions = (size + stride - 1) / stride;
    step = 1, start = upwards(kernel - 1);
    source_phases = 1, row_phases = stride, extent = upwards(0) - start;
}

static efl_int64 parts_of(efl_int64 total, efl_int64 most) { return total == 0 ? 0 : (total + most - 1) / most; }

static bool is_whole(const efl_conv2d& c) {
    const bool small = c.height == c.width && (c.height == 2 || c.height == 4);
    const bool plain = c.kernel_h == 3 && c.kernel_w == 3 && c.pad_h == 1 && c.pad_w == 1;
    return small && plain && c.stride_h == 1 && c.stride_w == 1 && c.dil_h == 1 && c.dil_w == 1;
}

// The channels of a block: as many as a tile of 3 x 8 results reads within L1, or more where lists would be short.
static efl_int64 block_of(const SparseLayout& l) {
    const efl_int64 down = std::min<efl_int64>(3, l.down.positions) + l.down.extent;
    const efl_int64 along = std::min<efl_int64>(8, l.along.positions) + l.along.extent;
    const efl_int64 window = l.whole ? l.plane : l.source_phases() * down * along;
    const efl_int64 least = l.whole ? SPARSE_WHOLE_LIST : SPARSE_LIST;
    const efl_int64 long_enough = l.count == 0 ? 1 : parts_of(l.rows * l.channels * least, l.count);
    const efl_int64 most = SPARSE_OFFSETS / std::max(l.plane, l.taps);
    const efl_int64 wanted = std::max(SPARSE_WINDOW / std::max<efl_int64>(window, 1), long_enough);
    return std::max<efl_int64>(1, std::min({wanted, most, l.channels}));
}

SparseLayout::SparseLayout(const efl_conv2d& c, efl_int64 count, bool transposed)
    : conv(c), transposed(transposed), down(c.height, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, transposed),
      along(c.width, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, transposed), whole(is_whole(c)),
      taps(c.kernel_h * c.kernel_w), kinds(whole ? taps : 3),
      rows((transposed ? c.in_channels : c.out_channels) * row_phases()),
      channels(transposed ? c.out_channels : c.in_channels), band(down.positions), count(count) {
    if (whole)
        for (SparseAxis* axis : {&down, &along}) axis->start = axis->extent = 0;
    pitch = along.positions + along.extent;
    plane = source_phases() * phase_plane();
    if (!whole && band > 8 && channels * plane > SPARSE_PLANES) band = SPARSE_BAND;
    plane = source_phases() * phase_plane();
    if (!whole) plane |= 1;  // so that channels do not share the sets of a cache
    const efl_int64 most = block_of(*this);
    blocks = parts_of(channels, most);
    block = blocks ? parts_of(channels, blocks) : 1;
    part = std::max<efl_int64>(1, SPARSE_PART / row_phases()) * row_phases();
    parts = parts_of(rows, part);
    list = (1 + kinds + 1) / 2;
    words = runs_at() + (count + 1) / 2;
}

efl_int64 SparseLayout::offset(efl_int64 tap) const {
    if (whole) return 0;
    const efl_int64 i = tap / conv.kernel_w, j = tap % conv.kernel_w;
    const efl_int64 phase = transposed ? 0 : down.phase(i) * along.source_phases + along.phase(j);
    return phase * phase_plane() + down.shift(i) * pitch + along.shift(j);
}

efl_int64 SparseLayout::row_phase(efl_int64 tap) const {
    if (!transposed) return 0;
    return down.phase(tap / conv.kernel_w) * along.row_phases + along.phase(tap % conv.kernel_w);
}

efl_status sparse_fits(const SparseLayout& l) {
    if (l.conv.groups != 1) return EFL_BAD_ARGUMENT;
    const efl_int64 weights = l.conv.out_channels * l.conv.in_channels * l.taps;
    if (l.count < 0 || l.count > weights || weights > 0xffffffffll) return EFL_BAD_SHAPE;
    const bool fits = l.plane <= SPARSE_OFFSETS && l.taps < SPARSE_OFFSETS && l.row_phases() <= SPARSE_PHASES;
    return fits ? EFL_OK : EFL_BAD_SHAPE;
}

}  // namespace efl
