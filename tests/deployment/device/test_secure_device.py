"""A device in secure aggregation, on its disk: what it refuses, and what it repeats after a kill."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edgefl.deployment.device.device_profile import SecureProfile
from edgefl.deployment.device.device_protocol import Device
from edgefl.deployment.device.device_state import GROUP, DeviceState, Membership
from edgefl.deployment.device.round_file import StoredSummand
from edgefl.deployment.device.secure_participant import SecureParticipant
from edgefl.errors import PlanError, RunError, SecurityError
from edgefl.methods.rounds.state_file import StoredClientState
from edgefl.protocol.secure.group_messages import KeyList, RoundKeys, read_message
from edgefl.protocol.secure.group_terms import GroupTerms, group_terms
from edgefl.protocol.secure.handed_identities import HandedTerms, handed_roster
from edgefl.protocol.secure.identity import SigningIdentity
from edgefl.protocol.secure.roster import Roster, signed_roster
from edgefl.protocol.wire.messages import Challenge, Evaluate, GroupReply, GroupRequest, SecureOffer, Trained
from edgefl.protocol.wire.run_terms import named_run
from edgefl.server.secure_settings import SecureSettings
from tests.deployment.device.device_cases import ANYBODY, world
from tests.protocol.wire.conversation import WELCOME, pair_in

OPERATOR, *IDENTITIES = (SigningIdentity.make(random.Random(seed).randbytes) for seed in range(8))
CLIENT, DRAW, NUMBERS = WELCOME.client, "a draw", np.arange(9, dtype=np.int32)
RUN = named_run("run", WELCOME)
ROSTER = Roster("home", 2, {client: each.public for client, each in enumerate(IDENTITIES)})
PROFILE = SecureProfile(IDENTITIES[CLIENT], OPERATOR.public)
FASTER = named_run("run", msgspec.structs.replace(WELCOME, options={**WELCOME.options, "lr": 0.5}))


def offered(roster: Roster = ROSTER, by: SigningIdentity = OPERATOR, least: int = 3) -> SecureOffer:
    return SecureOffer(signed_roster(roster, by), least, 0)


def opened(path: Path, profile: SecureProfile = PROFILE) -> SecureParticipant:
    """Return the device's part in a new process, with a round that waits for its verdict."""
    state = DeviceState(path, "run")
    if state.enrolment is None:
        state.begin(random.Random(5).randbytes)
        state.enrol(Membership("run", WELCOME, (20,)))
    if not state.pending:
        reply = Trained(4, {}, b"12345678", 20, 5, "on", {}, 1.5)
        state.keep(reply, StoredClientState({}, {}, {}), StoredSummand(DRAW, NUMBERS))
    return SecureParticipant(profile, state, world(random_bytes=random.Random(9).randbytes))


def terms(round: int = 4, draw: str = DRAW, members: int = 5, **changed: Any) -> GroupTerms:
    found = group_terms(
        ROSTER, RUN, round, draw, list(range(members)), len(NUMBERS), 32, losses=0, weights=[20] * members
    )
    return msgspec.structs.replace(found, **changed)


def step(device: SecureParticipant, number: int, data: bytes) -> GroupReply:
    return device.step(GroupRequest(4, number, data))


def test_it_keeps_the_newest_roster_and_refuses_others(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    device._state.close()
    again = opened(tmp_path)
    for offer, words in (
        (offered(replace_version(1)), "version 1 of the roster; expected version 2 or a newer one"),
        (offered(by=IDENTITIES[0]), "the operator's key has not signed version 2"),
        (offered(Roster("away", 3, ROSTER.keys)), "a roster of the federation 'away'; expected 'home'"),
        (offered(least=2), "sums with at least 2 clients; expected at least 3"),
    ):
        with pytest.raises(SecurityError, match=words):
            again.offer(offer)
    again.offer(offered(replace_version(3)))
    again._state.close()
    with pytest.raises(SecurityError, match="version 2 of the roster; expected version 3"):
        opened(tmp_path).offer(offered())


def test_a_large_roster_comes_in_parts_over_a_connection(tmp_path: Path) -> None:
    """5,000 clients have 175 kB, and a first message may have 64 kB. Parts of an earlier connection do not count."""
    many = msgspec.structs.replace(ROSTER, keys={**ROSTER.keys, **dict.fromkeys(range(8, 5000), OPERATOR.public)})
    *parts, offer = SecureSettings(signed_roster(many, OPERATOR)).offer
    assert len(parts) == 6
    device = opened(tmp_path)
    device.hear(parts[0])
    device.begin()
    pair = pair_in("deciding")
    for message in (*parts, offer):
        pair.say("server", message)
        device.hear(message)
    assert device._roster == many
    device._state.close()
    again = opened(tmp_path)
    with pytest.raises(SecurityError, match="another roster with version 2"):
        again.offer(offered())
    with pytest.raises(ValueError, match=r"a roster of 130000 clients has .* bytes; expected at most 4194304 bytes"):
        SecureSettings(signed_roster(Roster("home", 2, dict.fromkeys(range(130_000), OPERATOR.public)), OPERATOR))


def test_rosters_of_other_federations_and_operators_do_not_replace_each_other(tmp_path: Path) -> None:
    """An agent has one directory for the servers of several federations."""
    other, away = IDENTITIES[1], PROFILE._replace(federation="away")
    for profile, offer in (
        (PROFILE, offered()),
        (away, offered(Roster("away", 1, ROSTER.keys))),
        (PROFILE._replace(operator=other.public), offered(replace_version(1), by=other)),
    ):
        device = opened(tmp_path, profile)
        device.offer(offer)
        device._state.close()
    device = opened(tmp_path, away)
    with pytest.raises(SecurityError, match="a roster of the federation 'home'; expected 'away'"):
        device.offer(offered(replace_version(9)))
    device._state.close()
    with pytest.raises(SecurityError, match=r"has rosters of .*; expected the name of one \(--federation\)"):
        opened(tmp_path).offer(offered())


def replace_version(version: int) -> Roster:
    return msgspec.structs.replace(ROSTER, version=version)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (terms(draw="another draw"), "terms with the draw 'another draw'; expected 'a draw'"),
        (terms(bits=64), "terms with the number of bits 64; expected 32"),
        (terms(members=5, weights=(20, 20, 20, 21, 20)), "expected a weight each, of at most 20 for this device"),
        (terms(run="another"), f"terms with the run 'another'; expected '{RUN}"),
        (terms(run=FASTER), f"terms with the run '{FASTER}'; expected '{RUN}'"),
        (msgspec.structs.replace(terms(), members=(CLIENT,), weights=(20,)), "has 1 members; expected at least 3"),
    ],
    ids=["draw", "bits", "weight", "run", "options", "alone"],
)
def test_terms_that_do_not_fit_are_refused_in_words_and_open_nothing(
    tmp_path: Path, stated: GroupTerms, words: str
) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    answer = step(device, 1, stated.to_bytes())
    assert words in answer.refusal
    assert answer.data == b""
    assert not (tmp_path / GROUP).exists()


def test_a_killed_device_repeats_its_keys_and_takes_no_second_group(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    first = step(device, 1, terms().to_bytes())
    device._state.close()
    again = opened(tmp_path)
    again._world = world(random_bytes=random.Random(77).randbytes)
    again.offer(offered())
    assert step(again, 1, terms().to_bytes()) == first
    other = step(again, 1, terms(members=6).to_bytes())
    assert "this device has begun round 4; expected a later round" in other.refusal


def test_a_step_without_terms_is_refused(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    assert "step 4 in round 4 before the terms of a group" in step(device, 4, b"").refusal


def test_a_forged_key_of_another_client_is_refused_and_the_device_stays(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    mine = read_message(step(device, 1, terms().to_bytes()).data, RoundKeys, "keys")
    forged = [RoundKeys(k, bytes([k]) * 32, bytes([k + 100]) * 32, bytes(32), bytes(64)) for k in range(5)]
    forged[CLIENT] = mine
    answer = step(device, 2, KeyList(tuple(forged)).to_bytes())
    assert "client 0 has not signed its round keys for this group" in answer.refusal


def test_a_damaged_state_of_a_group_is_named(tmp_path: Path) -> None:
    device = opened(tmp_path)
    device.offer(offered())
    step(device, 1, terms().to_bytes())
    content = bytearray((tmp_path / GROUP).read_bytes())
    content[40] ^= 1
    (tmp_path / GROUP).write_bytes(content)
    device._state.close()
    again = opened(tmp_path)
    again.offer(offered())
    with pytest.raises(RunError, match=r"group\.bin is damaged"):
        step(again, 1, terms().to_bytes())


def test_a_device_says_it_is_ready_without_a_value(tmp_path: Path) -> None:
    device = opened(tmp_path)
    said = device.ready(device._state.reply())
    assert (said.round, said.examples, said.steps, said.seconds, said.identity) == (4, 20, 5, 1.5, b"")


# Identities that the server hands on.

UNKNOWING = PROFILE._replace(operator=None)


def handed(keys: dict[int, bytes] = ROSTER.keys, **changed: Any) -> bytes:
    stated = terms(federation=handed_roster(keys).federation, roster=1, **changed)
    return HandedTerms(stated.to_bytes(), keys).to_bytes()


def test_a_device_without_an_operator_takes_the_identities_that_come_with_the_terms(tmp_path: Path) -> None:
    device = opened(tmp_path, UNKNOWING)
    device.offer(SecureOffer(b"", 3, 0))
    assert device.ready(device._state.reply()).identity == IDENTITIES[CLIENT].public
    first = step(device, 1, handed())
    assert first.data
    device._state.close()
    again = opened(tmp_path, UNKNOWING)
    again.offer(SecureOffer(b"", 3, 0))
    assert step(again, 1, handed()) == first  # from the state on the disk
    others = {**ROSTER.keys, 0: IDENTITIES[6].public}
    assert "this device has begun round 4; expected a later round" in step(again, 1, handed(others)).refusal


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (terms().to_bytes(), "terms of a group with identities that cannot be read"),
        (HandedTerms(terms().to_bytes(), ROSTER.keys).to_bytes(), "terms with the federation 'home'; expected"),
        (handed({**ROSTER.keys, CLIENT: OPERATOR.public}), "has another identity for client 3 than this device"),
        (handed({0: ROSTER.keys[0], CLIENT: ROSTER.keys[CLIENT]}), "client 1 is not in version 1 of the roster"),
    ],
    ids=["no identities", "other identities", "another identity of the device", "too few"],
)
def test_identities_that_do_not_fit_are_refused(tmp_path: Path, data: bytes, words: str) -> None:
    device = opened(tmp_path, UNKNOWING)
    device.offer(SecureOffer(b"", 3, 0))
    assert words in step(device, 1, data).refusal
    assert not (tmp_path / GROUP).exists()


def test_a_device_with_an_operator_takes_no_handed_identities_and_one_without_takes_no_roster(tmp_path: Path) -> None:
    with pytest.raises(SecurityError, match="its server says who the other devices are; expected a roster"):
        opened(tmp_path).offer(SecureOffer(b"", 3, 0))
    with pytest.raises(SecurityError, match=r"the roster of an operator; expected .* \(--operator\)"):
        opened(tmp_path / "other", UNKNOWING).offer(offered())


# The protocol of the device around it.


def test_a_device_without_identity_leaves_a_secure_run(make: Callable[..., Device]) -> None:
    plain = make()
    with pytest.raises(RunError, match="the run has secure aggregation; start the device with --identity"):
        list(plain.handle(offered()))
    with pytest.raises(RunError, match="a step of secure aggregation in round 1; expected an offer before Welcome"):
        list(plain.handle(GroupRequest(1, 1, b"")))


def test_a_device_with_identity_leaves_an_open_run_and_tells_no_scores(make: Callable[..., Device]) -> None:
    secure = make(profile=ANYBODY._replace(secure=PROFILE), random_bytes=random.Random(1).randbytes)
    secure.hello(bytes(32))
    list(secure.handle(Challenge("run", bytes(32), b"")))
    with pytest.raises(RunError, match="run run has no secure aggregation; expected it, as this device has --identity"):
        list(secure.handle(WELCOME))
    with pytest.raises(PlanError, match="the scores of this client alone; expected sums"):
        list(secure.handle(Evaluate(1, True, {})))
