// Losses and their gradients. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
