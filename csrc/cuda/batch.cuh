// Batches: rows and labels picked by index, channels kept of a layer's input. Contracts: edgefl/kernels/table.py.
// Images side by side are a transposition (arrange.cuh).
#pragma once
#include "places.cuh"

// Ids are checked where they come from the host; others that are out of range read nothing.
EFL_DEVICE bool is_below(int id, Size count) { return unsigned(id) < unsigned(count); }

template <class Pixel>
EFL_DEVICE void gather_rows(const GatherRowsArgs& a) {
    const Pixel* const src = static_cast<const Pixel*>(a.src);
    const float scale = float(a.scale), shift = float(a.shift);
    each_position(a.count * a.width, [&](int i) {
        const unsigned width = unsigned(a.width);
        const int row = a.index[unsigned(i) / width];
        const Size at = row * a.width + unsigned(i) % width;
        a.out[i] = is_below(row, a.rows) ? float(src[at]) * scale + shift : NAN;
    });
}

EFL_KERNEL(gather_rows_pixels, 256) { gather_rows<Byte>(a); }
EFL_KERNEL(gather_rows_floats, 256) { gather_rows<float>(a); }

EFL_KERNEL(gather_labels, 256) {
    each_position(a.count, [&](int i) { a.out[i] = is_below(a.index[i], a.rows) ? a.src[a.index[i]] : -1; });
}

EFL_KERNEL(take_channels, 256) {
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner,
                  [&](int i) { a.out[i] = a.x[position_of(a.chosen, i).at]; });
}
