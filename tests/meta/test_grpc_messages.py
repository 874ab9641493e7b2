"""The committed messages are those of the ``.proto``, and any allowed protobuf reads them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from google.protobuf import descriptor_pool

from tests.project import ROOT
from tidegate.oip.protobuf import v2_pb2

PROTO = "tidegate/oip/protobuf/v2.proto"
PROTOBUF = ROOT / "shared/tidegate/oip/protobuf"
MADE_WITH = re.compile(r"^    (\d+),\n    (\d+),\n    (\d+),$", re.MULTILINE)


def without_version(module: str) -> str:
    """Leave out which protobuf made it, and what newer ones write in another way."""
    module = re.sub(r"^# Protobuf Python Version: .*$", "", module, flags=re.MULTILINE)
    return re.sub(r"_Optional\[(\w+)\]", r"\1", MADE_WITH.sub("", module))


def test_the_committed_module_is_what_the_proto_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", "shared"]
    command += [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"shared/{PROTO}"]
    subprocess.run(command, cwd=ROOT, check=True)
    for name in ("v2_pb2.py", "v2_pb2.pyi"):
        made = (tmp_path / "tidegate/oip/protobuf" / name).read_text(encoding="utf-8")
        committed = (PROTOBUF / name).read_text(encoding="utf-8")
        assert without_version(committed) == without_version(made), name


def test_the_oldest_allowed_protobuf_can_read_the_committed_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (floor,) = (
        requirement.split(">=")[1]
        for requirement in project["optional-dependencies"]["realtime"]
        if requirement.startswith("protobuf>=")
    )
    made_with = MADE_WITH.search((PROTOBUF / "v2_pb2.py").read_text(encoding="utf-8"))
    assert made_with is not None
    assert tuple(map(int, made_with.groups())) <= tuple(map(int, floor.split(".")))


def test_our_messages_take_no_name_that_a_client_library_registers() -> None:
    assert v2_pb2.DESCRIPTOR.package == "tidegate.oip.v2"
    pool = descriptor_pool.Default()
    for name in ("grpc_service.proto", "model_config.proto", "grpc_predict_v2.proto"):
        try:
            pool.FindFileByName(name)
        except KeyError:
            continue
        raise AssertionError(f"{name} is registered, and a client's would be refused")
