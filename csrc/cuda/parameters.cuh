// Gather and scatter of blocks of parameters. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
