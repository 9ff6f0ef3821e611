// Arguments of the search for the largest gradients.
#include <algorithm>
#include <stdexcept>

#include "call.h"

namespace efl {
namespace {

// Contents are read at every run.
void expect_filled(const View& filled, efl_int64 least, efl_int64 most, const char* op) {
    const efl_int64 found = *filled.as<efl_int32>();
    if (found < least || found > most)
        throw std::invalid_argument(std::string(op) + ": filled has value " + std::to_string(found) + "; expected " +
                                    std::to_string(least) + " to " + std::to_string(most));
}

Call keep_largest(Args& a) {
    const View grad = a.f32("grad");
    const efl_int64 first = a.integer("first");
    const View exists = a.typed<efl_uint8>("exists", Access::in, "uint8");
    const efl_int64 count = a.integer("count");
    const View magnitudes = a.f32("magnitudes", Access::out),
               places = a.typed<efl_int32>("places", Access::out, "int32"),
               filled = a.typed<efl_int32>("filled", Access::out, "int32"), smallest = a.f32("smallest", Access::out);
    for (const View* list : {&exists, &magnitudes}) a.expect_dims(*list, 1, 1);
    a.expect_shape(places, magnitudes.shape);
    for (const View* single : {&filled, &smallest}) a.expect_shape(*single, {1});
    const efl_int64 capacity = magnitudes.size(), most = std::min(8 * exists.size(), efl_int64(1) << 31) - grad.size();
    if (first < 0 || first > most) a.refuse("first", "value " + std::to_string(first), "0 to " + std::to_string(most));
    if (count < 0 || count + 16 > capacity)
        a.refuse("count", "value " + std::to_string(count), "0 to " + std::to_string(capacity - 16));
    return [=] {
        if (first > 0) expect_filled(filled, 0, capacity, "keep_largest");
        return efl_keep_largest_f32(grad.in(), grad.size(), first, exists.as<efl_uint8>(), exists.size(), count,
                                    magnitudes.out(), places.as<efl_int32>(), capacity, filled.as<efl_int32>(),
                                    smallest.out());
    };
}

Call largest_places(Args& a) {
    const View magnitudes = a.f32("magnitudes"), places = a.typed<efl_int32>("places", Access::in, "int32"),
               filled = a.typed<efl_int32>("filled", Access::in, "int32"),
               found = a.typed<efl_int32>("found", Access::out, "int32");
    for (const View* list : {&magnitudes, &found}) a.expect_dims(*list, 1, 1);
    a.expect_shape(places, magnitudes.shape);
    a.expect_shape(filled, {1});
    return [=] {
        expect_filled(filled, found.size(), magnitudes.size(), "largest_places");
        return efl_largest_places_f32(magnitudes.in(), places.as<efl_int32>(), magnitudes.size(),
                                      filled.as<efl_int32>(), found.size(), found.as<efl_int32>());
    };
}

}  // namespace

const std::vector<Op> growth_ops = {
    {.name = "keep_largest", .make = keep_largest},
    {.name = "largest_places", .make = largest_places},
};

}  // namespace efl
