// Products of int8 codes in plain C++: the words that bodies in kernels/int8 are written in, as every file of this
// folder defines them. They sum CODES products for each output of a vector, exactly, in 32 bits.

typedef int8_t Code;             // a code in packed memory
constexpr int CODES = 4;         // codes of a group, whose products go into one sum
constexpr int OUTS = W;          // outputs of a vector of sums
constexpr int AT_ONCE = 1;       // positions of a vector of sums
constexpr int MOST_VECTORS = 2;  // vectors of outputs in a tile
constexpr int MOST_SUMS = 8;     // vectors of sums in a tile
constexpr int32_t OFFSET = 0;    // what is added to a code of an input in packed memory
struct Sums {
    int32_t at[W];
};
struct Weights {
    Code of[W][CODES];
};
struct Inputs {
    Code of[CODES];
};

static inline Sums no_sums() { return Sums{}; }
static inline Weights load_weights(const Code* p) {
    Weights w;
    __builtin_memcpy(&w, p, sizeof w);
    return w;
}
// A group of each of AT_ONCE positions.
static inline Inputs load_inputs(const Code* const* p, int64_t off) {
    Inputs a;
    __builtin_memcpy(&a, p[0] + off, sizeof a);
    return a;
}
static inline Sums add_products(Sums sums, Weights w, Inputs a) {
    for (int i = 0; i < W; ++i)
        for (int k = 0; k < CODES; ++k) sums.at[i] += w.of[i][k] * a.of[k];
    return sums;
}
// The sums of each position, a pitch apart.
static inline void store_sums(Sums sums, int32_t* to, int64_t) { __builtin_memcpy(to, &sums, sizeof sums); }
// Puts packed weights of a vector, [output][code], in the order in which load_weights reads them.
static inline void settle(Code*) {}
