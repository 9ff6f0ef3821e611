"""The claims that a client's replies must make, given the declarations of its device at enrolment. exchange.py reads a
reply.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.methods.plan import Reply


class ReplyClaim(NamedTuple):
    """The claims that a client's replies must make. A claim that is None may have any value.

    examples      number of training samples
    steps         number of steps that follow from the samples
    joined_steps  number of steps that the reply may claim as well, where a last batch of one sample has joined the
                  batch before it

    A reply may claim anything if it has neither values nor masks. Such a reply comes from a client that has stopped.
    """

    examples: int | None = None
    steps: int | None = None
    joined_steps: int | None = None

    def refuse(self, reply: Reply) -> str | None:
        """Return the reason why the reply must not be aggregated, or None if it may be aggregated."""
        if not (reply.payload or reply.masks):
            return None
        for name, allowed in (("examples", [self.examples]), ("steps", [self.steps, self.joined_steps])):
            expected, claimed = allowed[0], getattr(reply, name)
            if expected is not None and claimed not in allowed:
                who = f"reply of client {reply.client} claims {claimed} {name}"
                return f"{who}; expected {expected}, as declared at enrolment"
        return None


NOT_DECLARED = ReplyClaim()
