"""The energy that this machine itself reports. Nothing is estimated: where the machine reports nothing, there is no
number.

meter             the energy of a piece of work: joules, the source that reported them, and seconds
source_detection  the sources that the machine has, and why it lacks the others
energy_counters   the conversion of readings into joules: counters that wrap round, and power that is integrated
rails             the choice of a board's rails that together are the whole board
rapl, hwmon       the processor's own counters, and the power monitors of boards
jetson, battery   the power monitors of older JetPacks, and the batteries

A counter measures the machine, so it includes whatever else runs. The joules of modelled devices, which are not here,
belong to another room.
"""

from edgefl.learning.energy.meter import EnergyMeter, idle_watts, meter, unmeasured
from edgefl.learning.energy.source_detection import choose, survey

__all__ = ["EnergyMeter", "choose", "idle_watts", "meter", "survey", "unmeasured"]
