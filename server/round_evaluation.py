"""The evaluation after a round: the request to every client, the answers, and the accuracies that they give.

The module knows no connections and no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from edgefl.learning import Evaluation
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.rounds.adaptation import ADAPTATION, Adaptation, adaptation_metrics
from edgefl.methods.rounds.exchange import evaluate_message
from edgefl.methods.rounds.round_metrics import Tested, accuracies, common_scores
from edgefl.methods.task import MODEL, State, Task
from edgefl.models.graph import Params
from edgefl.protocol.wire.messages import AdaptationReport, Evaluated, OverlapReport, Scores


class OpenEvaluation:
    """An evaluation that is going on.

    request  message for every client
    answers  answers by client. None for a client whose answer could not be used
    """

    def __init__(self, task: Task, algorithm: Algorithm, state: State, round: int) -> None:
        self.round, self._clients, self._decisions = round, task.clients, task.decisions
        self._place_score = task.place_score
        self.request = evaluate_message(round, algorithm, state, task.spec, task.place_score)
        self.answers: dict[int, Evaluated | None] = {}
        self._kind, self._model = algorithm.scored(state.arrays) or "personal", state.arrays.get(MODEL)

    def answer(self, client: int, message: Evaluated) -> str | None:
        """Take a client's scores, which count as its answer. Return why they cannot be used, in words, or None."""
        problem = self._wrong("personal", message.personal, self.request.personal)
        problem = problem or self._wrong("global", message.global_model, self._model is not None)
        self.answers[client] = message if problem is None else None
        return None if problem is None else f"evaluation of client {client} {problem}"

    def bundle(self, common: Callable[[Params], Tested] | None) -> dict[str, Any]:
        """Return the accuracies, as evaluation.Evaluator gives them. A kind that nobody answered is left out.

        common  evaluates a model on the test set that no client owns, if there is one
        """
        answers = [self.answers.get(client) for client in range(self._clients)]
        kinds = {
            self._kind: [None if each is None else _tested(each, "personal") for each in answers],
            "global_local": [None if each is None else _tested(each, "global_model") for each in answers],
        }
        asked = self._decisions, self._place_score
        found: dict[str, Any] = {kind: accuracies(scores, *asked) for kind, scores in kinds.items() if any(scores)}
        if self._model is not None and common is not None:
            result = common(self._model)
            found["global_common"] = common_scores(result, *asked)
        return found

    def adaptation(self) -> dict[str, Any]:
        """Return the entry of the metrics about the devices' adaptations, as the simulation has it."""
        said = {k: each.adaptation for k, each in self.answers.items() if isinstance(each, AdaptationReport)}
        found = {k: Adaptation(each.steps, each.executed_flops, each.seconds) for k, each in said.items() if each}
        return adaptation_metrics(found if ADAPTATION in self.request.payload else {})

    def _wrong(self, kind: str, scores: Scores | None, is_expected: bool) -> str | None:
        if not is_expected or scores is None:
            return None if (scores is not None) == is_expected else f"{'lacks' if is_expected else 'has'} {kind} scores"
        most = scores.examples * self._decisions
        if not 0 <= scores.correct <= most or scores.examples == 0:
            return f"has {scores.correct} correct of {most} ({kind}); expected at least 1 example, and not more correct"
        return None


def _tested(answer: Evaluated, kind: Literal["personal", "global_model"]) -> Evaluation | None:
    """Return a device's scores of one of its models, with the mean IoU if the device tells it."""
    scores: Scores | None = getattr(answer, kind)
    overlaps = (answer.personal_iou, answer.global_iou) if isinstance(answer, OverlapReport) else (None, None)
    mean_iou = overlaps[kind == "global_model"]
    if scores is None:
        return None
    return Evaluation(scores.loss_sum, scores.correct, scores.examples, mean_iou=mean_iou)
