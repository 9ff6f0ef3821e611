// Batch, group and layer normalisation. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
