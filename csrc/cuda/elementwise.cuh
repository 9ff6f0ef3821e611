// Rectifiers, addition, multiplication, zeroing. Contracts: edgefl/kernels/table.py.
#pragma once
#include "places.cuh"
#include "reduce.cuh"

// `most` and `slope` make the three rectifiers: y = x > 0 ? min(x, most) : slope x, NaN kept; the bit says 0 < x <
// most. A byte of bits has 8 neighbours of a plane, or what is left of it; so many threads that 8 of them, or all of a
// smaller plane, have one each. Arrays have so few values that these threads are counted in 32 bits.
EFL_DEVICE float rectified(float x, float slope, float most) {
    if (x > 0) return x < most ? x : most;
    return x <= 0 ? (slope == 0 ? 0.0f : x * slope) : x;  // NaN is neither
}

EFL_KERNEL(rectify_forward, 256) {
    EFL_SHARED Byte is_set[256];
    const unsigned each = unsigned(a.threads_each), inner = unsigned(a.inner), bytes = (inner + 7) / 8;
    const unsigned i = blockIdx.x * 256 + threadIdx.x, plane = i / (bytes * each), within = i % (bytes * each);
    const float slope = float(a.slope), most = float(a.most);
    Byte mine = 0;
    if (plane < a.planes && within < inner) {
        const unsigned at = plane * inner + within;
        const float value = a.x[at];
        mine = value > 0 && (value < most || most == INFINITY);
        a.y[at] = rectified(value, slope, most);
    }
    if (!a.bits) return;
    is_set[threadIdx.x] = mine;
    barrier();
    if (plane >= a.planes || within % each > 0) return;
    unsigned byte = 0;
    for (unsigned j = 0; j < each; ++j) byte |= unsigned(is_set[threadIdx.x + j]) << j;
    a.bits[i / each] = Byte(byte);
}

// Planes of whole bytes: a thread has the eight values of one.
EFL_KERNEL(rectify_bytes, 256) {
    const float slope = float(a.slope), most = float(a.most);
    const bool is_wide = are_aligned(a.x, a.y);
    each_position(a.count, [&](int i) {
        unsigned byte = 0;
        EFL_UNROLL
        for (int first = 0; first < 8; first += 4) {
            float values[4];
            read_neighbours(a.x + 8 * i + first, is_wide, values);
            EFL_UNROLL
            for (int k = 0; k < 4; ++k) {
                byte |= unsigned(values[k] > 0 && (values[k] < most || most == INFINITY)) << (first + k);
                values[k] = rectified(values[k], slope, most);
            }
            write_neighbours(a.y + 8 * i + first, is_wide, values);
        }
        if (a.bits) a.bits[i] = Byte(byte);
    });
}

EFL_KERNEL(rectify_backward, 256) {
    const int all = int(a.chosen.all), bytes = int((a.chosen.inner + 7) / 8);
    const float slope = float(a.slope);
    each_position(a.batch * a.chosen.channels.count * a.chosen.inner, [&](int i) {
        const ChosenPosition position = position_of(a.chosen, i);
        const Byte byte = a.bits[(position.image * all + position.channel) * bytes + position.within / 8];
        const float dy = a.dy[position.at];
        a.dx[position.at] = byte >> (position.within % 8) & 1 ? dy : slope == 0 ? 0.0f : dy * slope;
    });
}

EFL_KERNEL(add, 256) {
    each_pair(a.a, a.b, a.y, a.count, [](float p, float q) { return p + q; });
}

EFL_KERNEL(mul, 256) {
    each_pair(a.a, a.b, a.y, a.count, [](float p, float q) { return p * q; });
}

EFL_KERNEL(add_channels, 256) {
    each_position(a.planes * a.inner,
                  [&](int i) { a.y[i] += a.offset[unsigned(i) / unsigned(a.inner) % unsigned(a.channels)]; });
}

EFL_KERNEL(scale_channels, 256) {
    each_position(a.planes * a.inner, [&](int i) { a.y[i] = a.scale[unsigned(i) / unsigned(a.inner)] * a.x[i]; });
}

// A plane takes 32 threads: a warp's loads are one cache line, and a layer's planes are enough warps.
EFL_KERNEL(channel_dot, 256) {
    EFL_SHARED float shared[256];
    const Size plane = thread_of_grid() / 32, first = plane * a.inner;
    const int lane = int(threadIdx.x) % 32, inner = plane < a.planes ? int(a.inner) : 0;
    float sum = 0;
    for (int i = lane; i < inner; i += 32) sum = fmaf(a.a[first + i], a.b[first + i], sum);
    sum = lanes_sum<32>(sum, shared);
    if (lane == 0 && plane < a.planes) a.out[plane] = sum;
}

EFL_KERNEL(scale_places, 256) {
    each_position(a.count, [&](int i) {
        const unsigned inner = unsigned(a.inner), image = unsigned(i) / inner / unsigned(a.channels);
        a.y[i] = a.scale[image * inner + unsigned(i) % inner] * a.x[i];
    });
}

// A thread a place: neighbours read neighbours.
EFL_KERNEL(place_dot, 256) {
    each_position(a.count, [&](int i) {
        const unsigned inner = unsigned(a.inner), image = unsigned(i) / inner;
        const unsigned first = image * unsigned(a.channels) * inner + unsigned(i) % inner;
        float sum = 0;
        for (unsigned c = 0; c < unsigned(a.channels); ++c)
            sum = fmaf(a.a[first + c * inner], a.b[first + c * inner], sum);
        a.out[i] = sum;
    });
}

EFL_KERNEL(fill_zero, 256) {
    const Size fours = are_aligned(a.x) ? a.bytes / 16 : 0;
    each_position(fours, [&](int i) { reinterpret_cast<float4*>(a.x)[i] = make_float4(0, 0, 0, 0); });
    const Size rest = a.bytes - 16 * fours;  // may be of 2^31 bytes and more
    for (Size i = thread_of_grid(); i < rest; i += threads_of_grid()) a.x[16 * fours + i] = 0;
}

// ---- expressions
// -----------------------------------------------------------------------------------------------------

// NaN stays, as it does in none of fmaxf, fminf and comparisons.
EFL_DEVICE float better_of(float p, float q, bool is_q_better) { return p != p ? p : q != q || is_q_better ? q : p; }

EFL_DEVICE float step_of(int operation, float p, float q, float r) {
    switch (operation) {
        case 1: return p + q;
        case 2: return p - q;
        case 3: return p * q;
        case 4: return p / q;
        case 5: return better_of(p, q, q > p);
        case 6: return better_of(p, q, q < p);
        case 7: return powf(p, q);
        case 8: return p < q ? 1.0f : 0.0f;
        case 9: return p <= q ? 1.0f : 0.0f;
        case 10: return p == q ? 1.0f : 0.0f;
        case 11: return p != 0 ? q : r;
        case 12: return expf(p);
        case 13: return logf(p);
        case 14: return sqrtf(p);
        case 15: return sinf(p);
        case 16: return cosf(p);
        default: return fabsf(p);
    }
}

// A thread keeps the values of all steps for its position, of which it reads few.
EFL_KERNEL(evaluate, 256) {
    each_position(a.count, [&](int i) {
        float value[64];
        const float* const inputs[5] = {a.a, a.b, a.c, a.d, a.e};
        for (int k = 0; k < 5; ++k) value[k] = inputs[k] ? inputs[k][i] : 0;
        for (int k = 0; k < int(a.steps); ++k) {
            const int* const step = a.program + 4 * k;
            value[5 + k] = step[0] == 0
                               ? float(a.constants[step[1]])
                               : step_of(step[0], value[step[1] & 63], value[step[2] & 63], value[step[3] & 63]);
        }
        a.y[i] = value[4 + int(a.steps)];
    });
}

EFL_KERNEL(expand, 256) {
    const unsigned length = unsigned(a.channels), copies = unsigned(a.count / (a.batch * a.channels));
    each_position(a.count,
                  [&](int i) { a.y[i] = a.x[unsigned(i) / (length * copies) * length + unsigned(i) % length]; });
}

EFL_KERNEL(reduce, 256) {
    const int length = int(a.inner), values = int(a.channels), kind = int(a.kind);
    const float scale = float(a.scale);
    each_position(a.count, [&](int i) {
        const float* const x = a.x + Size(i / length) * values * length + i % length;
        float found = x[0];
        for (int c = 1; c < values; ++c) {
            const float v = x[Size(c) * length];
            found = kind == 0 ? found + v : better_of(found, v, kind == 1 ? v > found : v < found);
        }
        a.y[i] = kind == 0 ? found * scale : found;
    });
}
