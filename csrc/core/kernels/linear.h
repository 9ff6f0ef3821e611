// Kernels that an instruction set compiles in one piece, isa/linear.h: a row of kernels.h each.

// parameters
EFL_KERNEL(take_axes_32)
EFL_KERNEL(put_axes_32)
EFL_KERNEL(permute_f32)
EFL_KERNEL(take_flat_32)
EFL_KERNEL(put_flat_32)

// update
EFL_KERNEL(sum_squares_f32)
EFL_KERNEL(sgd_f32)
EFL_KERNEL(nesterov_f32)
EFL_KERNEL(adam_f32)

// linear
EFL_KERNEL(linear_forward_f32)
EFL_KERNEL(linear_grad_input_f32)
EFL_KERNEL(linear_grad_weight_f32)
EFL_KERNEL(linear_update_f32)
EFL_KERNEL(channel_sum_f32)

// recurrent
EFL_KERNEL(to_steps_f32)
EFL_KERNEL(from_steps_f32)
EFL_KERNEL(gru_forward_f32)
EFL_KERNEL(gru_backward_f32)
EFL_KERNEL(lstm_forward_f32)
EFL_KERNEL(lstm_backward_f32)

// attention
EFL_KERNEL(attention_forward_f32)
EFL_KERNEL(attention_backward_f32)
