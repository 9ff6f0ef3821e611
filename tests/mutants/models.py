"""Mutants of models in and out: what a run begins with, what is taken out of it, and what that is in ONNX."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FILE, TRAINED, ONNX, COMMANDS = (
    "tests/experiment/test_model_file.py",
    "tests/study/export/test_trained_models.py",
    "tests/study/export/test_onnx_nodes.py",
    "tests/cli/test_model_commands.py",
)

MUTANTS = (
    Mutant(
        "weights-are-drawn",
        "edgefl/experiment/federation.py",
        "if self.weights is None:",
        "if True:",
        "a model file gives its graph alone, and training starts from other weights",
        FILE,
    ),
    Mutant(
        "copy-is-trusted",
        "edgefl/experiment/model_file.py",
        "if (found := name_of(model)) != name:",
        "if (found := name) != name:",
        "a run goes on from a copy that was changed",
        FILE,
    ),
    Mutant(
        "resume-takes-any-model",
        "edgefl/cli/experiment_options.py",
        '.model) != given["model"]:',
        '.model) == "":',
        "another model file in --resume is not named as such",
        FILE,
    ),
    Mutant(
        "outputs-are-not-counted",
        "edgefl/experiment/model_file.py",
        "if graph.output_shape != outputs:",
        "if graph.output_shape < outputs:",
        "a model may have more outputs than there are classes",
        FILE,
    ),
    Mutant(
        "export-without-the-method",
        "edgefl/study/export/trained_models.py",
        "model = _model(graph, own.learner.read())",
        "model = _model(graph, local.learner.read())",
        "a client's head is left out of what is written",
        TRAINED,
    ),
    Mutant(
        "untrained-is-exported",
        "edgefl/study/export/trained_models.py",
        "if algorithm.keeps_state and found.kept is None:",
        "if False:",
        "a client that has not trained has a model",
        TRAINED,
    ),
    Mutant(
        "committed-unchecked",
        "edgefl/study/simulation/committed_rounds.py",
        "commit.digests.get(str(file.relative_to(path))))\n\n\ndef _kept",
        "None)\n\n\ndef _kept",
        "a damaged file of the server is exported",
        TRAINED,
    ),
    Mutant(
        "onnx-averages-padding",
        "edgefl/study/export/onnx_pools.py",
        "pads=pads, count_include_pad=int(counts))",
        "pads=pads, count_include_pad=1)",
        "the mean of a window counts padding always",
        ONNX,
    ),
    Mutant(
        "onnx-epsilon",
        "edgefl/study/export/onnx_norms.py",
        "ones, zeros, epsilon=op.eps)",
        "ones, zeros)",
        "a GroupNorm has ONNX's own epsilon",
        ONNX,
    ),
    Mutant(
        "onnx-dilations",
        "edgefl/study/export/onnx_nodes.py",
        "        dilations=op.dilation,\n        group=op.groups,\n    )\n\n\ndef _linear",
        "        group=op.groups,\n    )\n\n\ndef _linear",
        "a convolution is not dilated",
        ONNX,
    ),
    Mutant(
        "labels-are-rows",
        "edgefl/learning/predictor.py",
        "return largest if self.classes is None else np.array(self.classes)[largest]",
        "return largest",
        "a label is the number of an output, not its class",
        TRAINED,
    ),
    Mutant(
        "inputs-unscaled",
        "edgefl/experiment/data/npz.py",
        "x.astype(np.float32) * scale + shift",
        "x.astype(np.float32)",
        "inputs of an npz file are not what the model was trained on",
        COMMANDS,
    ),
)
