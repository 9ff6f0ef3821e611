"""The claims that a client's replies must make, given the declarations of its device at enrolment. exchange.py reads a
reply.
"""

from __future__ import annotations

from typing import NamedTuple

from edgefl.methods.plan import Reply


class ReplyClaim(NamedTuple):
    """The claims that a client's replies must make: its training samples, and the steps that follow from them; None:
    any claim.

    joined_steps  steps that the reply may claim as well: a last batch of one sample has joined the batch before it
    A reply that carries nothing may claim nothing, as of a client that has stopped.
    """

    examples: int | None = None
    steps: int | None = None
    joined_steps: int | None = None

    def refuse(self, reply: Reply) -> str | None:
        """Why the reply must not be aggregated; None if it may be."""
        if not (reply.payload or reply.masks):
            return None
        for name, allowed in (("examples", [self.examples]), ("steps", [self.steps, self.joined_steps])):
            expected, claimed = allowed[0], getattr(reply, name)
            if expected is not None and claimed not in allowed:
                who = f"reply of client {reply.client} claims {claimed} {name}"
                return f"{who}; expected {expected}, as declared at enrolment"
        return None


NOT_DECLARED = ReplyClaim()
