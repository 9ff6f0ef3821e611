"""`edgefl client --flower URL` is one device as a node of a Flower federation. client.py declares its options."""

from __future__ import annotations

import argparse
import ssl
import time

from edgefl.deployment.device.device_environment import DeviceEnvironment
from edgefl.deployment.device.device_model import Data
from edgefl.deployment.device.device_profile import DeviceProfile
from edgefl.deployment.device.relayed_device import RelayClient
from edgefl.deployment.device.run_folders import StateDirectory
from edgefl.deployment.supernode import node_key
from edgefl.deployment.supernode.fleet_api import SuperLinkClient, Url
from edgefl.deployment.supernode.message_store import Mailbox
from edgefl.deployment.supernode.supernode import FlowerNode
from edgefl.errors import EdgeflError, RequestError
from edgefl.protocol.trust.tls import device_context
from edgefl.protocol.wire.printable import printable

FOLDER = "flower"  # name of the folder in --state


def take_part(options: argparse.Namespace, profile: DeviceProfile, data: Data, world: DeviceEnvironment) -> int:
    """Answer the server of the run by envelopes until the server says that the run is over. Return the exit code."""
    url = _url(options)
    context = _context(options, url)
    given = None if options.node_key is None else node_key.read_node_key(options.node_key)
    if not url.is_https and not url.address.is_loopback:
        world.say(f"--insecure: whoever is between here and {url} can read the model and every update, and change them")
    relay = RelayClient(options.state, profile, data, world)
    try:
        mailbox = Mailbox(options.state / FOLDER, world.say)
        key = given or node_key.NodeKey(mailbox.made_key(node_key.generate))
        calls, beats = SuperLinkClient(url, key, context), SuperLinkClient(url, key, context)
        node = FlowerNode(calls, beats, mailbox, relay, world, time.time, time.sleep, given is None, options.give_up)
        world.say(f"the run is over: {node.run()}")
    except EdgeflError as error:
        error.args = (printable(str(error)),)  # the server's words may be in it
        raise
    finally:
        relay.close()
    _prune(options, world)
    return 0


def _prune(options: argparse.Namespace, world: DeviceEnvironment) -> None:
    for removed in [] if options.keep_runs is None else StateDirectory(options.state).prune(options.keep_runs):
        world.say(
            f"run {removed.over.run} is over: removed its {removed.size_bytes} bytes (--keep-runs {options.keep_runs})"
        )


def _url(options: argparse.Namespace) -> Url:
    url = Url.parse(options.flower)
    if not url.is_https and any((options.tls, options.tls_ca, options.tls_cert, options.tls_key)):
        raise RequestError(f"--flower {url} with TLS; expected https://")
    if not url.is_https and not url.address.is_loopback and not options.insecure:
        raise RequestError(f"--flower {url} is another machine; expected https://, or --insecure")
    return url


def _context(options: argparse.Namespace, url: Url) -> ssl.SSLContext | None:
    return device_context(options.tls_ca, options.tls_cert, options.tls_key) if url.is_https else None
