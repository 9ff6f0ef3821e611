"""Mutants of modelled devices: their profiles, who has which, the clock, and what is told of it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROFILE, FLEET, CLOCK = (
    f"tests/experiment/device_models/test_{name}.py"
    for name in ("device_profile", "device_assignment", "simulated_clock")
)
RUNS, STUDY = "tests/study/simulation/test_simulate_devices.py", "tests/study/test_devices_of_a_study.py"

MUTANTS = (
    Mutant(
        "free-messages",
        "edgefl/experiment/device_models/device_profile.py",
        "return (down > 0) + (up > 0)",
        "return 2",
        "a round without transfers waits for two messages",
        PROFILE,
    ),
    Mutant(
        "night-is-short",
        "edgefl/experiment/device_models/device_profile.py",
        "for day in (today - 1, today, today + 1):",
        "for day in (today, today + 1):",
        "a window over midnight closes at midnight",
        PROFILE,
    ),
    Mutant(
        "shares-are-equal",
        "edgefl/experiment/device_models/device_assignment.py",
        "ends = list(accumulate(device.share for device in sharing))",
        "ends = list(accumulate(1.0 for device in sharing))",
        "the share of a device is not heard",
        FLEET,
    ),
    Mutant(
        "operations-are-macs",
        "edgefl/experiment/device_models/simulated_clock.py",
        "FLOPS_PER_MAC = 2",
        "FLOPS_PER_MAC = 1",
        "a multiply-add is charged twice",
        CLOCK,
    ),
    Mutant(
        "late-are-free",
        "edgefl/experiment/device_models/simulated_clock.py",
        "if until > self._ended}",
        "if False}",
        "a client that still works is chosen again",
        CLOCK,
    ),
    Mutant(
        "deadline-for-none",
        "edgefl/experiment/device_models/simulated_clock.py",
        "or len(answered) < len(seconds)",
        "",
        "a server with a deadline does not wait for who is gone",
        CLOCK,
    ),
    Mutant(
        "late-are-folded",
        "edgefl/study/simulation/round_loop.py",
        'reply=None if record.status == "late" else outcome.reply',
        "reply=outcome.reply",
        "a reply after the deadline is folded",
        RUNS,
    ),
    Mutant(
        "clock-begins-again",
        "edgefl/study/simulation/round_loop.py",
        "        clock.goes_on(log_record)\n",
        "        pass\n",
        "a resumed run begins at midnight",
        RUNS,
    ),
    Mutant(
        "joules-of-the-last",
        "edgefl/study/summary.py",
        'spent.get("virtual_joules", 0.0) + virtual["joules"]',
        'virtual["joules"]',
        "energy is that of the last round",
        STUDY,
    ),
    Mutant(
        "target-of-the-end",
        "edgefl/study/accuracy_targets.py",
        "for point in curve if point",
        "for point in reversed(curve) if point",
        "what was spent until an accuracy is all that was spent",
        STUDY,
    ),
)
