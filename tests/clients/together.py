"""A client's stubs and this server in one process: ``together.py client|ours STUBS FOLDER …``.

The first argument says which of them is imported first; the folders are where ours is, and what it
needs.
"""

import importlib
import sys

first, stubs, *folders = sys.argv[1:]
sys.path.extend(folders)
for name in (stubs, "tidegate_realtime.api.grpc.service")[:: 1 if first == "client" else -1]:
    importlib.import_module(name)
ours = importlib.import_module("tidegate.oip.protobuf.v2_pb2").ModelInferRequest
theirs = importlib.import_module(stubs).ModelInferRequest
assert ours is not theirs
read = ours.FromString(theirs(model_name="risk", id="mine").SerializeToString())
assert (read.model_name, read.id) == ("risk", "mine")
sys.stdout.write("ok\n")
