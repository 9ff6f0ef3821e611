// Convolutions: forward, and the gradients of active channels. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
