// Reading an efl_index.

static const efl_index everything = {nullptr, 0};  // channels, rows or columns

static inline int64_t count_of(efl_index index, int64_t extent) { return index.ids ? index.count : extent; }
static inline int64_t id_of(efl_index index, int64_t i) { return index.ids ? index.ids[i] : i; }
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// p itself, from which the compiler may not derive a register for every vector behind it.
static inline const float* held(const float* p) {
    __asm__("" : "+r"(p));
    return p;
}
