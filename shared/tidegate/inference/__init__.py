"""Running a model version: the one code that both services score rows with."""

import os

# onnxruntime keeps a device id and facts about the host for its maker, unless it is told not to
# before it is imported. Whoever imports it does so through ``tidegate.inference.runner``.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
# The library tokenizers takes every core for a single request, which are the models' here, and
# warns on stderr when a process that did so forks.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
