// Which positions a thread of a launch takes, and where they are in arrays: one after another, four at a time, or of
// chosen channels. Arrays have fewer than 2^31 values (edgefl/kernels/cuda/program.py), so that positions are counted
// in 32 bits.
#pragma once
#include "portable.cuh"

// body(i) for this thread's positions below count, of a launch with blocks in a row.
template <class Body>
EFL_DEVICE void each_position(Size count, const Body& body) {
    const unsigned end = unsigned(count), step = unsigned(threads_of_grid());
    for (unsigned i = unsigned(thread_of_grid()); i < end; i += step) body(int(i));
}

// Whether all lie on 16 bytes, as float4 has to.
template <class... Arrays>
EFL_DEVICE bool are_aligned(const Arrays*... arrays) {
    return ((Size(arrays) | ...) & 15) == 0;
}

// Four neighbours, in one go if they lie on 16 bytes.
EFL_DEVICE void read_neighbours(const float* from, bool are_aligned, float (&to)[4]) {
    if (are_aligned) return read_four(from, to);
    EFL_UNROLL
    for (int k = 0; k < 4; ++k) to[k] = from[k];
}

EFL_DEVICE void write_neighbours(float* to, bool are_aligned, const float (&from)[4]) {
    if (are_aligned) {
        *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
        return;
    }
    EFL_UNROLL
    for (int k = 0; k < 4; ++k) to[k] = from[k];
}

// y = f(a, b) of each value. Any two of them may be one array.
template <class F>
EFL_DEVICE void each_pair(const float* a, const float* b, float* y, Size count, const F& f) {
    const Size fours = are_aligned(a, b, y) ? count / 4 : 0;
    each_position(fours, [&](int i) {
        const float4 p = reinterpret_cast<const float4*>(a)[i], q = reinterpret_cast<const float4*>(b)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(f(p.x, q.x), f(p.y, q.y), f(p.z, q.z), f(p.w, q.w));
    });
    each_position(count - 4 * fours, [&](int i) {
        const Size at = 4 * fours + i;
        y[at] = f(a[at], b[at]);
    });
}

struct ChosenPosition {
    int image, channel, within;  // of the value: in its plane
    int at;                      // of the value: among all
};

EFL_DEVICE ChosenPosition position_of(const Chosen& chosen, int i) {
    const unsigned inner = unsigned(chosen.inner), count = unsigned(chosen.channels.count);
    const unsigned within = unsigned(i) % inner, plane = unsigned(i) / inner, image = plane / count;
    const unsigned channel = unsigned(id_at(chosen.channels, int(plane % count)));
    const unsigned at = (image * unsigned(chosen.all) + channel) * inner + within;
    return {int(image), int(channel), int(within), int(at)};
}
