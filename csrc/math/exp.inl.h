// The exponential function on vectors, for the arguments that a softmax needs.
//
// e^v = 2^n e^r with n = round(v / ln 2) and r = v - n ln 2 in two parts (Cody and Waite), |r| <= ln 2 / 2; e^r by a
// polynomial of degree 6, a least-squares fit of our own with a relative error below 2^-28. At most 2 ulp from the true
// value (tests compare with float64).

constexpr float LEAST_EXPONENT = -87.3f;  // below, e^v is no normal number

// e^v = 2^n (1 + p), of v from LEAST_EXPONENT to 0.
struct ExpParts {
    vf n, p;
};

static inline ExpParts exp_parts(vf v) {
    const vf rounder = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
    const vf x = max(v, set1(LEAST_EXPONENT));
    const vf n = sub(fma(x, set1(1.44269504f), rounder), rounder);
    const vf r = fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x));
    vf p = set1(0.00138146133f);
    p = fma(p, r, set1(0.00836870993f));
    p = fma(p, r, set1(0.0416683874f));
    p = fma(p, r, set1(0.166665207f));
    p = fma(p, r, set1(0.499999935f));
    return {n, fma(mul(p, r), r, r)};
}

// e^v for v <= 0, 0 below LEAST_EXPONENT; NaN stays NaN.
static inline vf exp_nonpositive(vf v) {
    const ExpParts e = exp_parts(v);
    return if_up_to(v, set1(LEAST_EXPONENT), zero(), scaled(add(e.p, set1(1.0f)), e.n));
}

// e^v - 1 for v <= 0, near 0 without the cancellation.
static inline vf expm1_nonpositive(vf v) {
    const ExpParts e = exp_parts(v);
    return add(scaled(e.p, e.n), sub(scaled(set1(1.0f), e.n), set1(1.0f)));
}
