// Kernels that an instruction set compiles in one piece, isa/convolution.h: a row of kernels.h each.

// convolution
EFL_KERNEL(conv2d_forward_f32)
EFL_KERNEL(conv2d_grad_input_f32)
EFL_KERNEL(conv2d_grad_weight_f32)
