// Convolutions of masked weights, at the mask only. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
