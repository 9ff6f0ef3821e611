"""The check that a device goes on in a run with the samples that it has trained on there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgefl.deployment.device.device_state import Membership
from edgefl.errors import RequestError
from edgefl.experiment.data_record import DataRecord


def checked_record(
    enrolment: Membership, found: DataRecord, accepts_data: bool, path: Path, say: Callable[[str], None]
) -> Membership | None:
    """Return the membership with the record of the device's present samples, or None if the record has not changed.

    accepts_data  whether other samples are accepted
    path          directory of the device in the run, for messages
    Raises        RequestError for other samples than the device has trained on, unless these are accepted.
    """
    change = "" if enrolment.trains_on is None else enrolment.trains_on.change_to(found)
    if change is None:
        return None
    who = f"client {enrolment.welcome.client} in run {enrolment.run}"
    if not change:
        say(f"{path} keeps no SHA-256 of the samples of {who}: only later changes will be noticed")
    elif accepts_data:
        say(f"{who} continues with samples other than those that it has trained on: {change}")
    else:
        raise RequestError(
            f"{who} has trained on other samples than --data has now: {change}; restore the earlier samples, or"
            " accept the new samples with --accept-data"
        )
    return enrolment._replace(trains_on=found)
