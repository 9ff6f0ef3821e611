// Kernels that an instruction set compiles in one piece, isa/sparse.h: a row of kernels.h each.

// sparse_linear
EFL_KERNEL(sparse_linear_build)
EFL_KERNEL(sparse_linear_forward_f32)
EFL_KERNEL(sparse_linear_grad_input_f32)
EFL_KERNEL(sparse_linear_grad_weight_f32)

// sparse_convolution
EFL_KERNEL(sparse_conv2d_lanes)
EFL_KERNEL(sparse_conv2d_build)
EFL_KERNEL(sparse_conv2d_forward_f32)
EFL_KERNEL(sparse_conv2d_grad_input_f32)
EFL_KERNEL(sparse_conv2d_grad_weight_f32)
