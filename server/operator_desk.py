"""The operator's commands to a running server: what each does, and the answer once it is durable. It has no I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edgefl.methods.algorithm import Algorithm
from edgefl.server.action_queue import ActionQueue
from edgefl.server.client_links import Clients
from edgefl.server.client_tags import ClientTags
from edgefl.server.events import Say
from edgefl.server.member_records import AnswerOperator, CommandGiven, OperatorCommand
from edgefl.server.operator_command import ROUNDS, SELECT, checked, whom
from edgefl.server.refusal_register import RefusalRegister
from edgefl.server.round_sequence import RoundSequence
from edgefl.server.run_control import RunControl
from edgefl.server.run_progress import Progress
from edgefl.server.waiting_text import named

REMOVED = "the operator has removed this client from the run"


@dataclass(frozen=True)
class OperatorDesk:
    """The desk at which commands are taken.

    control            takes the settings of commands
    rounds             follows the settings
    clients, refusals  clients of the run, and the clients that take no part
    tags               tags of the clients' devices
    dismiss            closes a client's connection, for a reason
    answers            answers to the commands that are durable, by name
    waiting            answers to the other commands that were carried out, by name
    keeps_commands     whether the run can keep commands
    """

    algorithm: Algorithm
    control: RunControl
    rounds: RoundSequence
    clients: Clients
    refusals: RefusalRegister
    tags: ClientTags
    queue: ActionQueue
    dismiss: Callable[[int, str], None]
    answers: dict[str, str]
    keeps_commands: bool
    waiting: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def earlier(progress: Progress) -> tuple[dict[str, str], bool]:
        """Return the answers to the commands of earlier processes, and whether the run keeps commands."""
        answer = "carried out before the server was started again"
        return {command.name: answer for command in progress.commands}, progress.keeps_commands

    def take(self, event: CommandGiven, now: float) -> None:
        """Carry out a command, or answer why it cannot be carried out. A repeated command gets its answer again."""
        if event.name in self.answers:
            self.queue.add(AnswerOperator(event.name, self.answers[event.name], True))
        if event.name in self.answers or event.name in self.waiting:
            return
        try:
            words = checked(event.words)
            clients = self._check(words)
        except ValueError as error:
            self.queue.add(AnswerOperator(event.name, str(error), False))
            return
        self.waiting[event.name] = line = self._line(words, clients)
        self.queue.save(OperatorCommand(event.name, event.given, self.rounds.round, words))
        self.queue.add(Say(f"the operator's command {' '.join(words)}: {line}"))
        if words[0] != "drain":
            self.control.apply(words)
        for client in clients:
            if words[0] == "remove":
                self.refusals.ban(client, REMOVED)
                self.dismiss(client, REMOVED)
            else:
                self.refusals.readmit(client)
        self.rounds.follow_commands(words[-1].partition("=")[0], now)

    def saved(self, record: OperatorCommand, now: float) -> None:
        """Answer the operator, as the command is durable. The server ends after its answer at the earliest."""
        self.answers[record.name] = line = self.waiting.pop(record.name)
        self.queue.add(AnswerOperator(record.name, line, True))
        if record.words[0] == "drain":
            self.control.apply(record.words)
            self.rounds.follow_commands("", now)

    def _check(self, words: tuple[str, ...]) -> list[int]:
        """Return the clients that the command is about. Raises ValueError if the run cannot follow the command."""
        if not self.keeps_commands:
            raise ValueError("an earlier edgefl made this run, and the run keeps no commands; expected a newer run")
        if words[0] in ("remove", "readmit"):
            return self._clients(words[1])  # also once the run is over, of which a device may have to hear
        if self.rounds.is_over:
            raise ValueError("the run is over; expected a run with rounds to come")
        setting, _, value = words[-1].partition("=")
        if setting == ROUNDS:
            self._check_rounds(int(value))
        elif setting == SELECT and self.algorithm.asks_all and value != "all":
            raise ValueError(f"select={value} with {self.algorithm.name}; expected all, as it asks everybody")
        return []

    def _check_rounds(self, rounds: int) -> None:
        least = self.rounds.round + 1
        if self.rounds.done:
            raise ValueError(f"rounds={rounds}; expected a run with rounds to come, and no round follows {least - 1}")
        if rounds < least:
            raise ValueError(f"rounds={rounds}; expected at least {least}, or the command stop")
        if self.algorithm.needs_rounds:
            name = self.algorithm.name
            raise ValueError(f"rounds={rounds}; expected no change, as the rounds of {name} depend on their number")

    def _clients(self, text: str) -> list[int]:
        """Return the clients that are meant. Raises ValueError if no client is meant."""
        meant = whom(text)
        if isinstance(meant, int):
            if meant >= self.clients.count:
                raise ValueError(f"client {meant}; expected an id below {self.clients.count}")
            return [meant]
        found = self.tags.having(*meant)
        if not found:
            raise ValueError(f"no device has told the tag {text}; expected such a tag, or the id of a client")
        return found

    def _line(self, words: tuple[str, ...], clients: list[int]) -> str:
        """Return what the command does, for people."""
        open = self.rounds.open
        after = "from now on" if open is None else f"once round {open.number} is closed"
        whose = f"client {clients[0]}" if len(clients) == 1 else f"clients {named(clients)}"
        if words[0] == "set":
            return f"{words[1]} holds {after if words[1].startswith(SELECT) else 'from now on'}"
        return {
            "pause": f"no round opens {after}, until the command resume",
            "resume": "rounds open again",
            "stop": f"the run ends {after}",
            "drain": f"the server ends {after}; continue with --resume",
            "remove": f"{whose} is refused from now on" if len(clients) == 1 else f"{whose} are refused from now on",
            "readmit": f"{whose} may come again",
        }[words[0]]
