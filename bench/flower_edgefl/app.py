"""The Flower app that bench/deployment.py runs: any method of edgefl, on the samples that a node's config names.

It runs under Flower's own Python. Flower finds the two names below in the text of this file, so they stay plain.
"""

from __future__ import annotations

import json
from pathlib import Path

from edgefl.deployment.device.device_model import Data
from edgefl.experiment.client_dataset import read_partition
from edgefl.experiment.settings import Experiment
from edgefl.integrations.flower import client_app, server_app


def data(context):
    return Data(*read_partition(Path(context.node_config["data"])))


def state(context):
    return Path(context.node_config["state"])


def experiment(context):
    return Experiment.from_json(json.loads(Path(context.run_config["experiment"]).read_text()))


def run_dir(context):
    return Path(context.run_config["run-dir"])


client = client_app(data, state=state)
server = server_app(experiment, run_dir)
