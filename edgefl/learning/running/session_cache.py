"""SessionCache: the last few sessions of a learner, by what they run. It lowers nothing and binds nothing.

Schedules depend on the layout of the parameters. The sessions of a layout that the learner has left wait for its return
(parameter_layouts.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping

import numpy as np

from edgefl.learning.fit_options import Delta, FitOptions
from edgefl.learning.learner import Samples
from edgefl.learning.lowering.active_ids import ActiveIndices, Growth, check_masked
from edgefl.learning.lowering.lower import TRAINING, Mode
from edgefl.learning.lowering.schedule import Existing
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.running.mask_restriction import Restriction
from edgefl.learning.running.parameter_layouts import Layouts, ParameterLayout, Sessions
from edgefl.learning.running.session import Session
from edgefl.models.graph import Graph
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.trainable_parameters import Trainable, TrainableParameters

SESSIONS_KEPT = 6


class SessionCache:
    """The sessions of one graph. The session that was opened last is the latest.

    masks  bits of each masked parameter that lies whole, packed, low bits first. Schedules refer to these very arrays
    """

    def __init__(self, graph: Graph, spec: ModelSpec) -> None:
        self._graph, self._spec = graph, spec
        self._whole = TrainableParameters.of(spec, None)
        self._whole_active: dict[Delta, ActiveIndices] = {}
        self._sessions: Sessions = OrderedDict()
        self._layouts, self._layout = Layouts(), ParameterLayout()
        self.masks: dict[str, Existing] = {}

    def open(
        self,
        mode: Mode,
        samples: Samples,
        options: FitOptions = FitOptions(),
        terms: Terms = Terms(),
        grown: Mapping[str, Growth] | None = None,
        cut: str = "",
    ) -> Session:
        """Return the session with these properties, from the kept sessions if it is among them.

        options  `trainable` and `delta` say what the modes "train" and "gradient" compute gradients of
        grown    searches of the mode "grow": the coordinates that are sought
        cut      name of the result with which a pass of the mode "features" ends
        Raises   SelectionError if `trainable` does not fit the model, or selects a part of a masked parameter
        """
        trainable = self._trainable(options.trainable if mode in TRAINING else None)
        if mode == "grow":
            active = ActiveIndices.growing(self._graph, self._spec, grown or {})
        elif mode in TRAINING:
            active = self._active(trainable, options.delta)
            check_masked(trainable, active.blocks, self._layout.sparse_names())
        else:
            active = ActiveIndices()
        content = trainable.content if trainable.has_slices else b""  # schedules of slices hold ids that stay
        key = (mode, cut, active.signature, options.delta, terms, samples.x.dtype, content, samples.loss)
        session = self._sessions.get(key)
        if session is None or grown:
            session = self._sessions[key] = Session(mode, terms, active, samples, cut)
        if session is not next(reversed(self._sessions.values())):
            self._sessions.move_to_end(key)
        if session.active is not active:
            session.active.adopt(active)
        session.samples = samples
        while len(self._sessions) > SESSIONS_KEPT:
            self._sessions.popitem(last=False)
        return session

    def _trainable(self, selection: Trainable) -> TrainableParameters:
        return self._whole if selection is None else TrainableParameters.of(self._spec, selection)

    def _active(self, trainable: TrainableParameters, delta: Delta) -> ActiveIndices:
        """Return the ids for training these parameters. The ids of a model that is trained whole are found once."""
        if trainable is not self._whole or self.masks:
            return ActiveIndices.of(self._graph, self._spec, trainable, delta, self.masks)
        if delta not in self._whole_active:
            self._whole_active[delta] = ActiveIndices.of(self._graph, self._spec, trainable, delta)
        return self._whole_active[delta]

    def values(self) -> Collection[Session]:
        """Return all sessions of the present layout, the latest last."""
        return self._sessions.values()

    def drop_latest(self) -> None:
        """Drop the latest session, and with it its data set."""
        self._sessions.popitem()

    def keep_latest(self, sizes: Collection[int]) -> None:
        """Drop everything except the latest session's schedules for batches of these sizes."""
        key, session = self._sessions.popitem()
        self.clear()
        session.schedules = {size: session.schedules[size] for size in sizes}
        session.programs.clear()
        session.states.clear()
        self._sessions[key] = session

    def drop_programs(self) -> None:
        """Drop every program, because the arena moves to other addresses. Schedules stay."""
        for session in self._sessions.values():
            session.programs.clear()

    def clear(self) -> None:
        """Drop all sessions of every layout."""
        self._sessions.clear()
        self._layouts.clear()

    def turn_to(self, layout: ParameterLayout, restriction: Restriction) -> None:
        """Continue with the sessions of another layout of the parameters, and with the bits of this mask."""
        if layout != self._layout:
            self._layouts.leave(self._layout, self._sessions, self.masks)
            masks = {name: np.zeros_like(restriction.packed(name)) for name in layout.masked}
            self._sessions, self.masks = self._layouts.enter(layout) or (OrderedDict(), masks)
            self._layout = layout
        for name, bits in self.masks.items():
            bits[:] = restriction.packed(name)

    def index_bytes(self, session: Session) -> int:
        """Return the bytes of the id lists of a session, without the bits in `masks`."""
        return session.index_bytes(self.masks.values())

    @property
    def mask_bytes(self) -> int:
        """The bytes of `masks`, and of the sessions that wait for another layout."""
        return self._layouts.nbytes + sum(each.nbytes for each in self.masks.values())
