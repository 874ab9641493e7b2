"""tritonclient's control of models, unmodified, against a gateway's listener for operators."""

import sys
from collections.abc import Callable

import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def refused(call: Callable[[], object], status: str, words: str) -> None:
    """Hold a refusal to its status, and the library to handing our sentence on."""
    try:
        call()
    except InferenceServerException as error:
        if error.status() != status or words not in error.message():
            raise
    else:
        raise AssertionError(f"no {status}")


def states(client: triton.InferenceServerClient) -> list[tuple[str, str, str]]:
    """Return name, version and state of each version."""
    index = client.get_model_repository_index()
    return [(each["name"], each["version"], each["state"]) for each in index]


operator = triton.InferenceServerClient(sys.argv[1])
assert states(operator) == [("risk", "1", "READY")]
refused(lambda: operator.load_model("other"), "404", "other@stable")
operator.load_model("risk")
refused(lambda: operator.load_model("risk", config="{}"), "400", "'config' is not supported")
refused(lambda: operator.unload_model("risk"), "409", "was asked for when")
assert states(operator) == [("risk", "1", "READY")]
operator.close()
sys.stdout.write("ok\n")
