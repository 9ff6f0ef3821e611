// SGD, Nesterov, Adam, and clipping. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
