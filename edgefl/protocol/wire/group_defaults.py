"""The numbers of a group of secure aggregation, unless a server or a device says otherwise.

This module does without the package cryptography, which is optional. So the help of a command can state the numbers.
"""

from __future__ import annotations

LEAST = 3  # members whose sum may be opened
LOSSES = 2  # members who may be lost in all, over all steps of a round
COLLUDERS = 0  # members who may tell the server all that they know
STEP_S = 30.0  # seconds for which a step waits for members
