// Arguments of the operations without parameters: batches, ReLU, addition, pooling, loss.
#include <cstring>

#include "call.h"

namespace efl {
namespace {

Call gather_rows(Args& a) {
    const py::array source = a.any("src", Access::in);
    const bool bytes = py::isinstance<py::array_t<efl_uint8, 0>>(source);
    if (!bytes && !py::isinstance<py::array_t<float, 0>>(source))
        a.refuse("src", "dtype " + Args::dtype_of(source), "uint8 or float32");
    const View src = a.view("src", source), ids = a.ids("index");
    const float scale = a.real("scale"), shift = a.real("shift");
    const View out = a.f32("out", Access::out);
    a.expect_dims(src, 1, 8);
    Shape shape = src.shape;
    shape[0] = ids.size();
    a.expect_shape(out, shape);
    const efl_int64 rows = src.shape[0], width = product(src.shape, 1), count = ids.size();
    const efl_int32* const index = ids.as<efl_int32>();
    if (bytes) return [=] { return efl_gather_rows_u8(src.as<efl_uint8>(), rows, width, index, count, scale, shift, out.out()); };
    return [=] { return efl_gather_rows_f32(src.in(), rows, width, index, count, scale, shift, out.out()); };
}

Call gather_labels(Args& a) {
    const View src = a.typed<efl_int32>("src", Access::in, "int32"), ids = a.ids("index"),
               out = a.typed<efl_int32>("out", Access::out, "int32");
    a.expect_dims(src, 1, 1);
    a.expect_shape(out, ids.shape);
    return [=] { return efl_gather_labels(src.as<efl_int32>(), src.size(), ids.as<efl_int32>(), ids.size(), out.as<efl_int32>()); };
}

Call take_channels(Args& a) {
    const View x = a.f32("x");
    const efl_index channels = a.index("channels");
    const View out = a.f32("out", Access::out);
    a.expect_dims(x, 2, 8);
    Shape shape = x.shape;
    if (channels.ids) shape[1] = channels.count;
    a.expect_shape(out, shape);
    return [=] { return efl_take_channels_f32(x.in(), x.shape[0], x.shape[1], x.inner(), channels, out.out()); };
}

Call relu_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out), bits = a.typed_or_none<efl_uint8>("bits", Access::out, "uint8");
    a.expect_dims(x, 2, 8);
    a.expect_shape(y, x.shape);
    const efl_int64 planes = x.shape[0] * x.shape[1], inner = x.inner();
    a.expect_size(bits, planes * ((inner + 7) / 8));
    return [=] { return efl_relu_forward_f32(x.in(), planes, inner, y.out(), bits.as<efl_uint8>()); };
}

Call relu_backward(Args& a) {
    const View dy = a.f32("dy"), bits = a.typed<efl_uint8>("bits", Access::in, "uint8"), dx = a.f32("dx", Access::out);
    const efl_index channels = a.index("channels");
    a.expect_dims(dy, 2, 8);
    a.expect_shape(dx, dy.shape);
    a.expect_size(bits, dy.shape[0] * dy.shape[1] * ((dy.inner() + 7) / 8));
    return [=] { return efl_relu_backward_f32(dy.in(), bits.as<efl_uint8>(), dy.shape[0], dy.shape[1], dy.inner(), channels, dx.out()); };
}

Call add(Args& a) {
    const View x = a.f32("a"), z = a.f32("b"), y = a.f32("y", Access::out);
    a.expect_shape(z, x.shape);
    a.expect_shape(y, x.shape);
    return [=] { return efl_add_f32(x.in(), z.in(), x.size(), y.out()); };
}

Call fill_zero(Args& a) {
    const py::array x = a.any("x", Access::out);
    void* const data = const_cast<void*>(x.data());
    const size_t bytes = size_t(x.nbytes());
    return [=] {
        std::memset(data, 0, bytes);
        return EFL_OK;
    };
}

// kernel, stride and padding over the planes of `x`; `y` must have the output's shape.
efl_pool2d read_pool(Args& a, const View& x, const View& y) {
    a.expect_dims(x, 4, 4);
    efl_pool2d p{};
    p.planes = x.shape[0] * x.shape[1];
    p.height = x.shape[2];
    p.width = x.shape[3];
    a.pair("kernel", &p.kernel_h, &p.kernel_w);
    a.pair("stride", &p.stride_h, &p.stride_w);
    a.pair("padding", &p.pad_h, &p.pad_w);
    const Shape numbers{p.height, p.width, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w};
    a.expect_status(geometry(p), "(height, width, kernel 2, stride 2, padding 2) = " + text(numbers));
    a.expect_shape(y, {x.shape[0], x.shape[1], windows(p.height, p.kernel_h, p.stride_h, p.pad_h, 1),
                       windows(p.width, p.kernel_w, p.stride_w, p.pad_w, 1)});
    return p;
}

// A max pool numbers the cells of its window by one byte.
void countable(const Args& a, const efl_pool2d& p) {
    if (codes_fit(p) != EFL_OK) a.refuse("kernel", "value " + text({p.kernel_h, p.kernel_w}), "at most 255 cells");
}

Call maxpool_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out), codes = a.typed_or_none<efl_uint8>("codes", Access::out, "uint8");
    const efl_pool2d p = read_pool(a, x, y);
    countable(a, p);
    a.expect_size(codes, y.size());
    return [=] { return efl_maxpool_forward_f32(&p, x.in(), y.out(), codes.as<efl_uint8>()); };
}

Call maxpool_backward(Args& a) {
    const View dy = a.f32("dy"), codes = a.typed<efl_uint8>("codes", Access::in, "uint8"), dx = a.f32("dx", Access::out);
    const efl_pool2d p = read_pool(a, dx, dy);
    countable(a, p);
    const efl_index channels = a.index("channels");
    a.expect_size(codes, dy.size());
    return [=] { return efl_maxpool_backward_f32(&p, dy.in(), codes.as<efl_uint8>(), dx.shape[1], channels, dx.out()); };
}

Call avgpool_forward(Args& a) {
    const View x = a.f32("x"), y = a.f32("y", Access::out);
    efl_pool2d p = read_pool(a, x, y);
    p.count_include_pad = a.integer("count_include_pad") != 0;
    return [=] { return efl_avgpool_forward_f32(&p, x.in(), y.out()); };
}

Call avgpool_backward(Args& a) {
    const View dy = a.f32("dy"), dx = a.f32("dx", Access::out);
    efl_pool2d p = read_pool(a, dx, dy);
    p.count_include_pad = a.integer("count_include_pad") != 0;
    const efl_index channels = a.index("channels");
    return [=] { return efl_avgpool_backward_f32(&p, dy.in(), dx.shape[1], channels, dx.out()); };
}

Call softmax_xent(Args& a) {
    const View logits = a.f32("logits"), labels = a.ids("labels"),
               dlogits = a.f32_or_none("dlogits", Access::out), loss = a.typed<double>("loss", Access::out, "float64"),
               correct = a.typed<efl_int64>("correct", Access::out, "int64");
    a.expect_dims(logits, 2, 2);
    a.expect_shape(labels, {logits.shape[0]});
    a.expect_shape(dlogits, logits.shape);
    a.expect_shape(loss, {1});
    a.expect_shape(correct, {1});
    return [=] {
        return efl_softmax_xent_f32(logits.in(), labels.as<efl_int32>(), logits.shape[0], logits.shape[1], dlogits.out(), loss.as<double>(),
                                    correct.as<efl_int64>());
    };
}

}  // namespace

const std::vector<Op> elementwise_ops = {
    {"gather_rows", gather_rows},         {"gather_labels", gather_labels},       {"take_channels", take_channels},
    {"relu_forward", relu_forward},       {"relu_backward", relu_backward},       {"add", add},
    {"maxpool_forward", maxpool_forward}, {"maxpool_backward", maxpool_backward}, {"avgpool_forward", avgpool_forward},
    {"avgpool_backward", avgpool_backward}, {"softmax_xent", softmax_xent},       {"fill_zero", fill_zero},
};

}  // namespace efl
