"""The tags that devices have told, and the version of edgefl on each device, by client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgefl.server.client_choice import CLIENT, SEEN, VERSION, Value


class ClientTags:
    """The tags of the clients, as conditions on clients see them."""

    def __init__(self, tags: Mapping[int, Mapping[str, str]], provenances: Iterable[tuple[int, str]] = ()) -> None:
        """Begin with the tags that are durable, and with every (client, provenance) so far."""
        self._tags = {client: dict(theirs) for client, theirs in tags.items()}
        self._versions: dict[int, str] = {}
        for client, provenance in provenances:
            self.trains_with(client, provenance)

    def of(self, client: int) -> Mapping[str, str]:
        """Return the tags that the client's device has told."""
        return self._tags.get(client, {})

    def tell(self, client: int, tags: Mapping[str, str]) -> bool:
        """Take the tags of the client's device in the place of its earlier ones. Return whether they differ."""
        if self.of(client) == tags:
            return False
        self._tags[client] = dict(tags)
        return True

    def trains_with(self, client: int, provenance: str) -> None:
        """Note the provenance of the client's device, which has the version as its second word."""
        words = provenance.split()
        if len(words) > 1:
            self._versions[client] = words[1]

    def having(self, name: str, value: str) -> list[int]:
        """Return the clients whose tag of this name has this value, ascending."""
        return sorted(client for client, theirs in self._tags.items() if theirs.get(name) == value)

    def values(self, client: int, seen_s: float) -> Mapping[str, Value]:
        """Return what a condition may ask about a client that was heard of so many seconds ago."""
        own: dict[str, Value] = {CLIENT: client, SEEN: seen_s}
        if client in self._versions:
            own[VERSION] = self._versions[client]
        return {**self.of(client), **own}
