// Normalisation, rectifier and pool in one. Contracts: csrc/edgefl.h.
#pragma once
#include "portable.cuh"
