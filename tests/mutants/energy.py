"""Mutants of the energy that a machine tells: counters that wrap, totals, and numbers that nobody told."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RAPL, RAILS, BATTERY = (f"tests/learning/energy/test_{name}.py" for name in ("rapl", "rails", "battery"))
METER, TRAINING, STUDY = (
    "tests/learning/energy/test_meter.py",
    "tests/methods/rounds/test_client_round.py",
    "tests/study/test_measured_energy.py",
)

MUTANTS = (
    Mutant(
        "wraps-are-lost",
        "edgefl/learning/energy/energy_counters.py",
        "return now - before + self.range_uj",
        "return now",
        "what a counter grew by up to its range is lost",
        RAPL,
    ),
    Mutant(
        "failed-reading-passes",
        "edgefl/learning/energy/energy_counters.py",
        "        if len(values) < len(read):\n            self._is_whole = False\n",
        "        if len(values) < len(read):\n",
        "joules of a counter that could not be read at the end",
        RAPL,
    ),
    Mutant(
        "no-trapezoids",
        "edgefl/learning/energy/energy_counters.py",
        "(at_s - then_s) * (then + now) / 2",
        "(at_s - then_s) * now",
        "power counts as what it became",
        RAILS,
    ),
    Mutant(
        "gaps-are-bridged",
        "edgefl/learning/energy/energy_counters.py",
        "self._is_whole and at_s - then_s <= LONGEST_GAP_S",
        "self._is_whole",
        "a number for a time in which nobody looked",
        RAILS,
    ),
    Mutant(
        "parts-of-packages",
        "edgefl/learning/energy/rapl.py",
        'r"intel-rapl:\\d+"',
        'r"intel-rapl.*"',
        "parts of a package and its second name are added to it",
        RAPL,
    ),
    Mutant(
        "everything-is-the-whole",
        "edgefl/learning/energy/rails.py",
        "    return [rail for rail in rails if rail.label.startswith(SOCKET)]",
        "    return list(rails)",
        "rails are added that may lie behind each other",
        RAILS,
    ),
    Mutant(
        "sums-are-channels",
        "edgefl/learning/energy/hwmon.py",
        "if channel <= CHANNELS.get(chip, channel)",
        "if True",
        "an INA3221's sum of currents counts as a rail",
        RAILS,
    ),
    Mutant(
        "charging-counts",
        "edgefl/learning/energy/battery.py",
        "if DISCHARGING not in states or CHARGING in states or",
        "if DISCHARGING not in states or",
        "a number while one battery is charged",
        BATTERY,
    ),
    Mutant(
        "voltage-of-the-end",
        "edgefl/learning/energy/battery.py",
        "(before - now) * (unit_before + unit) / 2",
        "(before - now) * unit",
        "charge is worth the voltage after it has flowed",
        BATTERY,
    ),
    Mutant(
        "samples-unasked",
        "edgefl/learning/energy/source_detection.py",
        "if is_asked or source.is_cheap",
        "if source",
        "a device samples its power without being asked to",
        METER,
    ),
    Mutant(
        "thread-stays",
        "edgefl/learning/energy/meter.py",
        "        over.set()\n        thread.join()\n",
        "        pass\n",
        "a thread reads on after the measurement",
        METER,
    ),
    Mutant(
        "zero-joules",
        "edgefl/methods/rounds/client_round.py",
        '    if spent.joules is not None:\n        found[f"{JOULES}{spent.kind}"] = spent.joules',
        '    found[f"{JOULES}{spent.kind}"] = spent.joules or 0.0',
        "a device that measures nothing says that it took nothing",
        TRAINING,
    ),
    Mutant(
        "partial-sum",
        "edgefl/study/energy_totals.py",
        "        if not said:\n            return None\n",
        "",
        "the joules of some devices pass for those of all",
        STUDY,
    ),
)
