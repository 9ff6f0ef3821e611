"""Energy that this machine itself tells: no model of it, and no number where nothing is told.

meter    what a piece of work took: joules, whose word that is, seconds
sources  which source there is, and why not the others
rapl     the processor's own counters; hwmon: power monitors of boards; jetson: those of older JetPacks; battery
rails    which of a board's rails together are the whole board
source   how readings become joules: counters that wrap round, and power that is integrated

A counter is the machine's: whatever else runs is in it. Joules of a model, of devices that are not here, are another
room's.
"""

from edgefl.learning.energy.meter import EnergyMeter, idle_watts, meter, unmeasured
from edgefl.learning.energy.source_detection import choose, survey

__all__ = ["EnergyMeter", "choose", "idle_watts", "meter", "survey", "unmeasured"]
