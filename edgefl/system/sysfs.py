"""Files under /sys and /proc as text and numbers. The callers know what the files mean.

If Linux does not tell a value, it is None or an empty text. Drivers refuse to answer at times.
"""

from __future__ import annotations

from pathlib import Path


def folders(path: Path) -> list[Path]:
    """Return the entries of a folder in the order of their names. A path that is not a folder has no entries."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def text(file: Path) -> str:
    """Return the text of a file without spaces around it, or an empty text if the file cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(file: Path) -> int | None:
    """Return the whole number in a file, or None if the file has no whole number of at most 64 bits."""
    try:
        found = int(text(file))
    except ValueError:
        return None
    return found if -(1 << 63) <= found < 1 << 64 else None


def is_refused(file: Path) -> bool:
    """Return whether the file exists and this user may not read it."""
    try:
        file.read_text(errors="replace")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def supplies(root: Path) -> dict[str, list[Path]]:
    """Return the batteries of /sys/class/power_supply under "Battery", and all other supplies under "Mains".

    Batteries of peripheral devices, such as mice, are left out.
    root  the folder that stands for /
    """
    kinds: dict[str, list[Path]] = {"Battery": [], "Mains": []}
    for supply in folders(root / "sys/class/power_supply"):
        if text(supply / "scope") != "Device":
            kinds["Battery" if text(supply / "type") == "Battery" else "Mains"].append(supply)
    return kinds
