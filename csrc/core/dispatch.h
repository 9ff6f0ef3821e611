// The table of kernels in use: one pointer per efl_<name> of edgefl.h, same arguments, already checked by api.cc.
//
// A tier's install() overwrites entries. The ladder runs from the baseline up to what this CPU and the cap allow, so a
// tier needs to bring only the kernels it does better. The table changes at load and in efl_cap_isa, nowhere else.
#pragma once
#include "abi.h"

namespace efl {

#define EFL_KERNELS(K)                                                                                            \
    K(gather_rows_u8) K(gather_rows_f32) K(gather_labels) K(take_channels_f32)                                    \
    K(conv2d_forward_f32) K(conv2d_grad_input_f32) K(conv2d_grad_weight_f32)                                      \
    K(linear_forward_f32) K(linear_grad_input_f32) K(linear_grad_weight_f32) K(linear_update_f32)                 \
    K(channel_sum_f32)                                                                                            \
    K(batchnorm_forward_f32) K(batchnorm_eval_f32) K(batchnorm_backward_f32)                                      \
    K(groupnorm_forward_f32) K(groupnorm_backward_f32)                                                            \
    K(batchnorm_relu_forward_f32) K(batchnorm_relu_backward_f32)                                                  \
    K(groupnorm_relu_forward_f32) K(groupnorm_relu_backward_f32)                                                  \
    K(relu_forward_f32) K(relu_backward_f32) K(add_f32)                                                           \
    K(maxpool_forward_f32) K(maxpool_backward_f32) K(avgpool_forward_f32) K(avgpool_backward_f32)                 \
    K(softmax_xent_f32) K(sum_squares_f32) K(sgd_f32)                                                             \
    K(take_axes_32) K(put_axes_32) K(take_flat_32) K(put_flat_32)

struct Table {
#define EFL_FIELD(name) decltype(&efl_##name) name;
    EFL_KERNELS(EFL_FIELD)
#undef EFL_FIELD
};

// The kernels in use. Read-only outside cpu.cc.
const Table& table();

// The name of the tier in use, and the choice of one (contracts of efl_isa, efl_has_isa and efl_cap_isa).
const char* isa();
bool has_isa(const char* name);
bool cap_isa(const char* name);

}  // namespace efl
