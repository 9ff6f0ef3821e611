"""Files under /sys and /proc as text and numbers. Not what they mean: that is said where they are read.

None, or empty: Linux does not say. Drivers refuse at times.
"""

from __future__ import annotations

from pathlib import Path


def folders(path: Path) -> list[Path]:
    """The entries of a folder, in the order of names; no entries if it is not a folder."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def text(file: Path) -> str:
    """The text of a file without spaces around it; empty if the file cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(file: Path) -> int | None:
    """A whole number of 64 bits at most; None if there is none."""
    try:
        found = int(text(file))
    except ValueError:
        return None
    return found if -(1 << 63) <= found < 1 << 64 else None


def is_refused(file: Path) -> bool:
    """Whether it is there and this user may not read it."""
    try:
        file.read_text(errors="replace")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def supplies(root: Path) -> dict[str, list[Path]]:
    """The batteries of /sys/class/power_supply, and under "Mains" every other supply; batteries of mice do
    not count.

    root  the folder that stands for /
    """
    kinds: dict[str, list[Path]] = {"Battery": [], "Mains": []}
    for supply in folders(root / "sys/class/power_supply"):
        if text(supply / "scope") != "Device":
            kinds["Battery" if text(supply / "type") == "Battery" else "Mains"].append(supply)
    return kinds
