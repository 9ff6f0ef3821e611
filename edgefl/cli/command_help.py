"""Examples and common options of each command, as its help shows them."""

from __future__ import annotations

from typing import NamedTuple


class CommandHelp(NamedTuple):
    """The part of a command's help that its options do not give.

    examples  command lines that work as they stand, where files and runs have these names
    common    options that `--help` shows; empty for every option of the command
    """

    examples: tuple[str, ...]
    common: tuple[str, ...] = ()


HELP = {  # command -> its help
    "simulate": CommandHelp(
        (
            "edgefl simulate --method fedspu,fedavg --rounds 10",
            "edgefl simulate --data samples.csv --label y --group person --run-dir first",
        ),
        (
            "--method", "--rounds", "--seed", "--data", "--label", "--group", "--clients", "--per-round", "--partition",
            "--model", "--keep", "--epochs", "--batch", "--lr", "--set", "--seeds", "--run-dir", "--resume", "--plot",
            "--table", "--json", "--verbose", "--quiet",
        ),
    ),
    "methods": CommandHelp(("edgefl methods", "edgefl methods fedspu")),
    "check": CommandHelp(
        ("edgefl check samples.csv --label y --group person",),
        (
            "--label", "--group", "--time", "--drop", "--standardise", "--missing", "--clients", "--partition",
            "--model", "--method", "--data-dir", "--json", "--verbose", "--quiet",
        ),
    ),
    "demo": CommandHelp(("edgefl demo", "edgefl demo --rounds 5 --run-dir demo")),
    "serve": CommandHelp(
        (
            "edgefl serve --method fedspu --clients 4 --rounds 10 --run-dir first",
            "edgefl serve --resume first --host 0.0.0.0 --keys server.keys --tls-cert server.pem "
            "--tls-key server-tls.key",
        ),
        (
            "--method", "--rounds", "--seed", "--data", "--label", "--group", "--clients", "--per-round", "--partition",
            "--model", "--keep", "--epochs", "--batch", "--lr", "--set", "--run-dir", "--resume", "--host", "--port",
            "--page", "--wait-for", "--deadline", "--keys", "--tls-cert", "--tls-key", "--insecure", "--verbose",
            "--quiet",
        ),
    ),
    "report": CommandHelp(("edgefl report first second -o report.html",)),
    "status": CommandHelp(("edgefl status first", "edgefl status first --devices --watch 5")),
    "devices": CommandHelp(("edgefl devices first --watch",)),
    "control": CommandHelp(
        ("edgefl control first pause", "edgefl control first set deadline=60", "edgefl control first remove 3"),
    ),
    "page": CommandHelp(("edgefl page first --listen 127.0.0.1:8080",)),
    "client": CommandHelp(
        (
            "edgefl client --server 127.0.0.1:7227 --state state --data shares/device-0000.npz",
            "edgefl client --server example.org:7227 --tls-ca ca.pem --key device-0000.key --id 0 --state state "
            "--data mine.npz",
        ),
        (
            "--server", "--flower", "--state", "--data", "--id", "--capacity", "--max-memory", "--max-seconds",
            "--learner", "--key", "--tls", "--tls-ca", "--insecure", "--verbose", "--quiet",
        ),
    ),
    "agent": CommandHelp(("edgefl agent agent.toml --check", "edgefl agent agent.toml")),
    "partition": CommandHelp(
        ("edgefl partition --clients 4 --out shares",),
        (
            "--data", "--label", "--group", "--clients", "--partition", "--model", "--seed", "--out",
            "--validation-share", "--json", "--verbose", "--quiet",
        ),
    ),
    "keys": CommandHelp(
        (
            "edgefl keys keys --clients 4 --host localhost,127.0.0.1",
            "edgefl keys --join identity.json",
            "edgefl keys --roster home.roster --operator operator.json --federation home --add-from joined",
        )
    ),
    "convert": CommandHelp((
            "edgefl convert model.py:net --input 3,32,32 -o net.safetensors",
            "edgefl convert net.onnx -o net.safetensors",
        )),
    "lora": CommandHelp(
        ("edgefl lora gpt2.safetensors --rank 8 --targets c_attn -o adapted.safetensors",
         "edgefl lora adapted.safetensors --merge -o merged.safetensors"),
    ),
    "export": CommandHelp(("edgefl export first model.onnx --method fedavg", "edgefl export state mine.safetensors")),
    "predict": CommandHelp(("edgefl predict model.safetensors inputs.npy --labels",)),
    "inspect": CommandHelp(("edgefl inspect model.safetensors --keep 1,.5,.2",)),
    "memory": CommandHelp(
        ("edgefl memory fedspu_emnist", "edgefl memory fedspu_cifar --fit 24MB"),
        (
            "--input", "--classes", "--batch", "--keep", "--method", "--loss", "--optimizer", "--saved", "--measure",
            "--fit", "--board", "--plot", "--json", "--verbose", "--quiet",
        ),
    ),
    "bench": CommandHelp(("edgefl bench backward model.py:net --input 3,32,32 --keep .2",)),
    "doctor": CommandHelp(("edgefl doctor",)),
    "completion": CommandHelp((
            "edgefl completion bash > ~/.local/share/bash-completion/completions/edgefl",
            "edgefl completion zsh > ~/.zfunc/_edgefl",
            "edgefl completion fish > ~/.config/fish/completions/edgefl.fish",
        )),
}  # fmt: skip
