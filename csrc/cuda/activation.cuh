// Smooth activations and PReLU. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
