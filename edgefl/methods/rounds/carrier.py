"""The ways in which a plan reaches a simulated client and the reply comes back: messages, or directly in one process.

Both carriers give the same plan, answer and sizes. A checked exchange is carried both ways and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from edgefl.errors import CodecError
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.plan import Plan, Reply
from edgefl.methods.rounds.answer import Answer
from edgefl.methods.rounds.change_bound import Old
from edgefl.methods.rounds.direct_exchange import UpdateFacts, is_direct, received_answer, received_plan
from edgefl.methods.rounds.exchange import plan_of, read_answer, sizes, train_message, trained_message
from edgefl.methods.rounds.reply_claim import ReplyClaim
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.protocol.codec import Sizes


class Carrier(Protocol):
    """The exchange of one plan and its reply.

    measures  whether `answer` measures the changes of a reply
    down      sizes of what the plan's message carries
    """

    measures: ClassVar[bool]

    @property
    def down(self) -> Sizes: ...

    def received(self, held: Sequence[Mask]) -> Plan:
        """Return the plan as the client reads it. `held` are the masks that the client keeps."""

    def answer(
        self, reply: Reply, received: Plan, seconds: float, declared: ReplyClaim, old: Old | None = None
    ) -> Answer:
        """Return the answer as the server reads it.

        old  values before the round, from which a direct exchange measures the reply's changes. None: it does not
        """


class MessageCarrier:
    """An exchange by messages, as a server and a device have it."""

    measures: ClassVar[bool] = False

    def __init__(self, plan: Plan, spec: ModelSpec, values: str) -> None:
        self._plan, self._spec, self._values = plan, spec, values
        self._message = train_message(plan, spec, values)
        self.down = sizes(self._message.payload, self._message.selection)

    def received(self, held: Sequence[Mask]) -> Plan:
        return plan_of(self._message, self._plan.client, self._spec, held)

    def answer(
        self, reply: Reply, received: Plan, seconds: float, declared: ReplyClaim, old: Old | None = None
    ) -> Answer:
        up = trained_message(reply, received, self._spec, self._values, seconds)
        return read_answer(up, self._plan, self._spec, declared)


class DirectCarrier:
    """An exchange within one process (direct_exchange.py). A reply with masks is carried by a message."""

    measures: ClassVar[bool] = True

    def __init__(self, plan: Plan, spec: ModelSpec, facts: UpdateFacts) -> None:
        self._plan, self._spec, self._facts = plan, spec, facts
        self._received, self.down = received_plan(plan, spec, facts)

    def received(self, held: Sequence[Mask]) -> Plan:
        return self._received

    def answer(
        self, reply: Reply, received: Plan, seconds: float, declared: ReplyClaim, old: Old | None = None
    ) -> Answer:
        if reply.masks:
            up = trained_message(reply, received, self._spec, "float32", seconds)
            return read_answer(up, self._plan, self._spec, declared)
        return received_answer(reply, self._plan, received, self._spec, self._facts, seconds, declared, old)


class CheckedCarrier:
    """An exchange by messages that is compared with the direct exchange. Raises CodecError if they differ."""

    measures: ClassVar[bool] = True

    def __init__(self, plan: Plan, spec: ModelSpec, facts: UpdateFacts) -> None:
        self._client = plan.client
        self._messages, self._direct = MessageCarrier(plan, spec, "float32"), DirectCarrier(plan, spec, facts)
        self.down = self._messages.down

    def received(self, held: Sequence[Mask]) -> Plan:
        plan, direct = self._messages.received(held), self._direct.received(held)
        self._compare((plan, self._messages.down), (direct, self._direct.down))
        return plan

    def answer(
        self, reply: Reply, received: Plan, seconds: float, declared: ReplyClaim, old: Old | None = None
    ) -> Answer:
        answer = self._messages.answer(reply, received, seconds, declared)
        direct = self._direct.answer(reply, received, seconds, declared, old)
        self._compare(answer, direct._replace(lengths=None))
        return answer._replace(lengths=direct.lengths)

    def _compare(self, message: tuple[object, ...], direct: tuple[object, ...]) -> None:
        if message != direct:
            raise CodecError(
                f"a message for or of client {self._client} differs from what is passed on without a message; expected "
                "both to be equal, so please report this"
            )


def carrier_of(
    algorithm: Algorithm, plan: Plan, spec: ModelSpec, values: str, facts: UpdateFacts, is_checked: bool
) -> Carrier:
    """Return the carrier of a plan of this method. Raises CodecError for a plan that no message can express.

    values      number format of the payloads
    is_checked  whether a plan that needs no message is carried by messages as well
    """
    if not is_direct(algorithm, plan, values):
        return MessageCarrier(plan, spec, values)
    return CheckedCarrier(plan, spec, facts) if is_checked else DirectCarrier(plan, spec, facts)
