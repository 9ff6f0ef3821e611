// The gradients of windows, each for the first cell of its window that equals the best one. Cells are asked in turn.

#if !defined(EFL_WINNERS)
struct Winners {
    vf left;  // of windows without a winner yet

    explicit Winners(vf gradients) : left(gradients) {}
    // c + a * the gradients whose winner x is.
    vf add_first(vf a, vf x, vf best, vf c) {
        const vf taken = keep_equal(left, x, best);
        left = drop_equal(left, x, best);
        return fma(a, taken, c);
    }
    // c + a * the gradients that are left.
    vf add_left(vf a, vf c) const { return fma(a, left, c); }
};
#endif
