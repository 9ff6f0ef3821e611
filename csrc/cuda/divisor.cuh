// Division by a number that a launch knows: by a product and a shift, several times faster than a division.
#pragma once
#include "portable.cuh"

// n / d = n multiplier >> shift for 0 <= n < 2^31, the two being those of edgefl/kernels/cuda/divisor.py.
EFL_DEVICE int divided(int n, const Divisor& by) {
    return int((unsigned long long)(unsigned(n)) * unsigned(by.multiplier) >> int(by.shift));
}

// n = whole * size + rest
struct Split {
    int whole, rest;
};

EFL_DEVICE Split split(int n, int size, const Divisor& by) {
    const int whole = divided(n, by);
    return {whole, n - whole * size};
}
