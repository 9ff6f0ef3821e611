// The largest gradients outside a mask. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
