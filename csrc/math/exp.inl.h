// The exponential function on vectors, for the arguments that a softmax needs.
//
// e^v = 2^n e^r with n = round(v / ln 2) and r = v - n ln 2 in two parts (Cody and Waite), |r| <= ln 2 / 2; e^r by a
// polynomial of degree 6, a least-squares fit of our own with a relative error below 2^-28. At most 2 ulp from the true
// value (tests compare with float64).

constexpr float LEAST_EXPONENT = -87.3f;  // below, e^v is no normal number

// e^v for v <= 0, 0 below LEAST_EXPONENT; NaN stays NaN.
static inline vf exp_nonpositive(vf v) {
    const vf rounder = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
    const vf x = max(v, set1(LEAST_EXPONENT));
    const vf n = sub(fma(x, set1(1.44269504f), rounder), rounder);
    const vf r = fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x));
    vf p = set1(0.00138146133f);
    p = fma(p, r, set1(0.00836870993f));
    p = fma(p, r, set1(0.0416683874f));
    p = fma(p, r, set1(0.166665207f));
    p = fma(p, r, set1(0.499999935f));
    p = fma(mul(p, r), r, r);
    return if_up_to(v, set1(LEAST_EXPONENT), zero(), scaled(add(p, set1(1.0f)), n));
}
