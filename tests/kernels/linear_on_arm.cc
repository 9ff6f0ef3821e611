// A program for aarch64 that tries the NEON tier's dense products against sums in double: `scripts/arm.sh smoke` builds
// it from the tier's one file and runs it under qemu, where neither Python nor the whole library for aarch64 is at
// hand. Not the suite: that is `scripts/arm.sh tests`.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "../../csrc/core/dispatch.h"

namespace efl::neon {
void install_linear(Table& table);
}

using Values = std::vector<float>;

static Values drawn(int64_t count, uint32_t seed) {
    Values values(count);
    for (float& value : values) value = int32_t((seed = seed * 1664525 + 1013904223) >> 8) / 8388608.0f - 1;
    return values;
}

// The largest error in units of the sum's length times float32's epsilon; NaN counts as infinite.
static double error(const Values& found, const std::vector<double>& expected, int64_t length) {
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        double off = std::fabs(found[i] - expected[i]) / (double(length + 1) * 1.2e-7);
        if (!(off <= worst)) worst = std::isnan(off) ? INFINITY : off;
    }
    return worst;
}

static double forward(const efl::Table& table, int64_t batch, int64_t in, int64_t out) {
    Values x = drawn(batch * in, 1), w = drawn(out * in, 2), bias = drawn(out, 3), y(batch * out);
    table.linear_forward_f32(x.data(), w.data(), bias.data(), batch, in, out, y.data());
    std::vector<double> expected(y.size());
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t r = 0; r < out; ++r) {
            double sum = bias[r];
            for (int64_t c = 0; c < in; ++c) sum += double(x[b * in + c]) * w[r * in + c];
            expected[b * out + r] = sum;
        }
    return error(y, expected, in);
}

static double grad_input(const efl::Table& table, int64_t batch, int64_t in, int64_t out) {
    Values dy = drawn(batch * out, 4), w = drawn(out * in, 5), dx(batch * in);
    table.linear_grad_input_f32(dy.data(), w.data(), batch, in, out, {}, {}, dx.data());
    std::vector<double> expected(dx.size());
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t c = 0; c < in; ++c)
            for (int64_t r = 0; r < out; ++r) expected[b * in + c] += double(dy[b * out + r]) * w[r * in + c];
    return error(dx, expected, out);
}

static double grad_weight(const efl::Table& table, int64_t batch, int64_t in, int64_t out) {
    Values x = drawn(batch * in, 6), dy = drawn(batch * out, 7), dw(out * in);
    table.linear_grad_weight_f32(x.data(), dy.data(), batch, in, out, {}, {}, dw.data());
    std::vector<double> expected(dw.size());
    for (int64_t r = 0; r < out; ++r)
        for (int64_t c = 0; c < in; ++c)
            for (int64_t b = 0; b < batch; ++b) expected[r * in + c] += double(dy[b * out + r]) * x[b * in + c];
    return error(dw, expected, batch);
}

int main() {
    efl::Table table{};
    efl::neon::install_linear(table);
    const int64_t sizes[] = {1, 3, 4, 5, 8, 13, 33, 120};
    double worst = 0;
    int cases = 0;
    for (int64_t batch : {1, 7, 16})
        for (int64_t in : sizes)
            for (int64_t out : sizes)
                for (auto product : {forward, grad_input, grad_weight}) {
                    double off = product(table, batch, in, out);
                    if (!(off <= worst)) worst = off;
                    if (!(off <= 1))
                        return std::printf("product of %d x %d x %d: off by %.3g of its bound\n", int(batch), int(in),
                                           int(out), off),
                               1;
                    ++cases;
                }
    std::printf("%d dense products of the NEON tier, worst %.3f of the bound\n", cases, worst);
}
