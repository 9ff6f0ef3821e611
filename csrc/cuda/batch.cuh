// Gathers of batches and channels. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
