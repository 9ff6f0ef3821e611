// Linear layers: forward, and the gradients of active features; sums over channels. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
